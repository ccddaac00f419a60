"""The tokenizers of the tiny models: a byte-level BPE with Qwen2's pre-tokeniser and a ChatML template, and a WordPiece for the encoders.

Not run by itself: make_models.py and make_gguf.py import it. The BPE is trained here on a few invented
sentences; the WordPiece vocabulary is listed.

The BPE has 256 bytes, 32 merges and 8 special tokens (296 ids). What it is made to show:
- ` ки` (with its space) is one ordinary merged token, as in Llama 3, never an added token; `ки` without the space is another;
- `+`, `-` and the newline are single tokens; digits never merge (Qwen2 splits numbers digit by digit); `.\n` merges, as `.\n` and
  `\n\n` do in Qwen2.5, so a newline sought by id can be swallowed by its neighbour when a text is encoded as a whole;
- `<extra_0>` is an added token, and `<s>` is the bos token, which nothing adds by itself.
"""

import re

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import BertTokenizerFast, PreTrainedTokenizerFast

QWEN2_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<s>", "</s>", "<extra_0>", "<pad>", "<unk>"]
CHAT_TEMPLATE = """{%- if messages[0]['role'] == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if not (loop.first and message.role == 'system') %}
    {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
CORPUS = [
    "the step is correct. ки\nthe sum is 12. ки\nso the answer is 7. ки\n",
    "is the total of the two numbers + or - ? the product in the answer is 3 + 4 = 7.\n",
    "ки ки + - step one: add the numbers. step two: take the half of it.\n\n",
    "then we get the rest, and the answer is the sum of these. ки\n",
]


def bpe():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN2_SPLIT), behavior="isolated", invert=False),
            pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    trainer = trainers.BpeTrainer(
        vocab_size=288, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS * 4, trainer)
    tokenizer.add_special_tokens(SPECIALS)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        eos_token="<|im_end|>",
        pad_token="<pad>",
        clean_up_tokenization_spaces=False,
        model_max_length=4096,
    )
    fast.chat_template = CHAT_TEMPLATE
    for text in [" ки", "ки", "+", "-", "\n", "<extra_0>", ".\n"]:
        assert len(fast.encode(text)) == 1, (text, fast.convert_ids_to_tokens(fast.encode(text)))
    assert len(fast) == 296
    return fast


def wordpiece(folder):
    # Listed, not trained: the trainer breaks ties by hash order, so two runs differ.
    letters = list("abcdefghijklmnopqrstuvwxyz0123456789")
    words = sorted({word for text in CORPUS for word in re.findall("[a-z]{2,}", text)})
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *"+-=.,:?", *(f"##{letter}" for letter in letters), "##er", "##ing", *words]
    tokens = (tokens + [f"[unused{i}]" for i in range(160)])[:160]
    tokenizer = Tokenizer(models.WordPiece({token: i for i, token in enumerate(tokens)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", tokenizer.token_to_id("[CLS]")), ("[SEP]", tokenizer.token_to_id("[SEP]"))],
    )
    tokenizer.decoder = decoders.WordPiece()
    fast = BertTokenizerFast(tokenizer_object=tokenizer, do_lower_case=True, model_max_length=64)
    fast.save_pretrained(folder)
    return fast
