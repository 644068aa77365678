"""The inside of the process that generates: loads one model with its adapter, continues prompts.

Only a worker imports this module: it brings torch and transformers.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel
from transformers import PreTrainedTokenizerBase as Tokenizer

from daydream.canonical import seed_of

Turns = Sequence[tuple[str, str]]


class State(NamedTuple):
    """What is loaded."""

    model: PreTrainedModel
    tokenizer: Tokenizer


def load(base: str, adapter: str, threads: int) -> State:
    """Load the model in folder ``base`` and the adapter on top of it, if any."""
    torch.set_num_threads(threads)
    tokenizer = AutoTokenizer.from_pretrained(base, local_files_only=True)
    # Processors are slow at the half numbers in which many models are saved.
    dtype = "auto" if torch.cuda.is_available() else torch.float32
    model = AutoModelForCausalLM.from_pretrained(base, local_files_only=True, dtype=dtype)
    if adapter:
        from peft import PeftModel

        model = PeftModel.from_pretrained(model, adapter, local_files_only=True)
    if torch.cuda.is_available():
        model = model.to("cuda")
    model.eval()
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    tokenizer.padding_side = "left"
    return State(model, tokenizer)


def generate(
    state: State,
    argument: tuple[Sequence[Turns], Sequence[int], tuple[float, int, int]],
) -> list[tuple[str, int, int, str]]:
    """Return (text, tokens read, tokens written, why it ended) for each prompt.

    The draws are a function of the seed, the numbers of the samples, and the prompts of the batch.
    """
    asked, samples, (temperature, max_tokens, seed) = argument
    texts = [_text(state, turns) for turns in asked]
    tokenizer, model = state.tokenizer, state.model
    inputs = tokenizer(texts, return_tensors="pt", padding=True, add_special_tokens=False)
    inputs.pop("token_type_ids", None)
    inputs = inputs.to(model.device)
    torch.manual_seed(seed_of(seed, *samples))
    draw = {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": 1.0}
    with torch.inference_mode():
        output = model.generate(
            **inputs,
            max_new_tokens=max_tokens,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            **(draw if temperature > 0 else {"do_sample": False}),
        )
    width = inputs["input_ids"].shape[1]
    read = inputs["attention_mask"].sum(dim=1).tolist()
    answers = []
    for row, count in zip(output[:, width:].tolist(), read, strict=True):
        ended = tokenizer.eos_token_id in row
        kept = row[: row.index(tokenizer.eos_token_id)] if ended else row
        text = tokenizer.decode(kept, skip_special_tokens=True)
        answers.append((text, int(count), len(kept) + ended, "stop" if ended else "length"))
    return answers


def _text(state: State, turns: Turns) -> str:
    if not state.tokenizer.chat_template:
        return "".join(text for _, text in turns)
    messages = [{"role": role, "content": text} for role, text in turns]
    found: str = state.tokenizer.apply_chat_template(
        messages, tokenize=False, add_generation_prompt=True
    )
    return found
