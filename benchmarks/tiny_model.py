"""A tiny language model made on the spot: a Llama of some 280,000 parameters over 22 characters.

It learns the stack language of the task ``formula`` from worked examples of the split ``train``
alone, for so few steps that it gets only a part of the problems right. Nothing is downloaded.

    python -m benchmarks.tiny_model FOLDER --steps 225
"""

import argparse
import random
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from daydream.tasks.formula import worked_examples

CHARACTERS = "uvwxyz123456789+-*()="
PAD, END = "<pad>", "<end>"
EXAMPLES = 6_000
BATCH = 32
LEARNING_RATE = 2e-3
WARMUP = 20


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer with a token for each character."""
    vocabulary = {token: n for n, token in enumerate([PAD, END, *CHARACTERS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=PAD))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=PAD,
        clean_up_tokenization_spaces=False,
    )


def make_model(tokenizer: PreTrainedTokenizerFast, seed: int) -> LlamaForCausalLM:
    """Return the model with weights drawn from ``seed``."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=96,
        intermediate_size=192,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=64,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
        tie_word_embeddings=True,
    )
    return LlamaForCausalLM(config)


def teach(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, *, steps: int, seed: int
) -> list[float]:
    """Train ``model`` on worked examples for ``steps``; return the loss of each."""
    pairs = worked_examples("train", range(EXAMPLES))
    rng = random.Random(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=0.0)
    model.train()
    losses = []
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * min(1.0, (step + 1) / WARMUP)
        batch = [rng.choice(pairs) for _ in range(BATCH)]
        ids, labels = _rows(tokenizer, batch)
        loss = model(input_ids=ids, attention_mask=(ids != 0).long(), labels=labels).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    return losses


def _rows(
    tokenizer: PreTrainedTokenizerFast, pairs: Sequence[tuple[str, str]]
) -> tuple[torch.Tensor, torch.Tensor]:
    asked = [tokenizer(question)["input_ids"] for question, _ in pairs]
    answered = [[*tokenizer(answer)["input_ids"], tokenizer.eos_token_id] for _, answer in pairs]
    width = max(len(a) + len(b) for a, b in zip(asked, answered, strict=True))
    ids, labels = [], []
    for question, answer in zip(asked, answered, strict=True):
        rest = width - len(question) - len(answer)
        ids.append([*question, *answer, *[0] * rest])
        labels.append([*[-100] * len(question), *answer, *[-100] * rest])
    return torch.tensor(ids), torch.tensor(labels)


def make_base(folder: Path, *, steps: int, seed: int) -> Path:
    """Make, teach and save a base model in ``folder``."""
    torch.set_num_threads(1)
    tokenizer = make_tokenizer()
    model = make_model(tokenizer, seed)
    teach(model, tokenizer, steps=steps, seed=seed)
    model.eval()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def main(arguments: Sequence[str]) -> int:
    """Make one base model."""
    parser = argparse.ArgumentParser(description="Make a tiny base model.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=225)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    print(make_base(given.folder, steps=given.steps, seed=given.seed))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
