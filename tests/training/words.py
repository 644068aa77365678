"""A tiny model over whole words, whose tokenizer is made for the texts that it will see."""

import re
from collections.abc import Iterable
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

PIECE = r"[A-Za-z]+|\d|\s+|[^\w\s]"
PAD, END = "<pad>", "<end>"
TEMPLATE = (
    "{% for message in messages %}{{ message['content'] }}"
    "{% if message['role'] == 'assistant' %}<end>{% endif %}{% endfor %}"
)
LONGEST = 4_096


def make_word_model(folder: Path, texts: Iterable[str], *, seed: int) -> Path:
    """Save a model with random weights whose tokenizer knows the words of ``texts``."""
    torch.manual_seed(seed)
    words = sorted({piece for text in texts for piece in re.findall(PIECE, text)})
    vocabulary = {token: number for number, token in enumerate([PAD, END, *words])}
    found = Tokenizer(models.WordLevel(vocabulary, unk_token=PAD))
    found.pre_tokenizer = pre_tokenizers.Split(Regex(PIECE), behavior="isolated")
    found.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=found, eos_token=END, pad_token=PAD, clean_up_tokenization_spaces=False
    )
    tokenizer.chat_template = TEMPLATE
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=2,
            max_position_embeddings=LONGEST,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            bos_token_id=None,
            tie_word_embeddings=False,
            # Wide enough for the frozen head to tell words apart, which nobody taught it to.
            initializer_range=0.2,
        )
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
