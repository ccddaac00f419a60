"""Invented strings that tokenizers tend to treat differently: whitespace, digits, contractions, scripts, marks, special tokens, code."""

STRINGS = [
    "", " ", "  ", "   leading", "trailing   ", "\n", "\n\n", "\n\n\n", "\t\tif x:\n\t\t\tpass\n", "a\nb\r\nc", "Hello world", "Hello, world!", " Hello",
    "HELLO hello HeLLo", "don't I'll we've they're it's I'm you'd", "DON'T I'LL", "1234567890", "3.14159", "1,000,000", "2+2=4", "x^2 + y^2 = z^2",
    "\\frac{1}{2} \\boxed{42}", "$\\sqrt{2}$", "100% of $5 is €5", "abc123def456", "１２３", "٣٤٥", "½ ⅓ ²³", "naïve café", "nai\u0308ve cafe\u0301", "Über Straße",
    "Привет мир", "ки ки", " ки", "東京タワー", "안녕하세요", "שלום עולם", "नमस्ते", "🙂🙃", "👩‍👩‍👧‍👦", "\u200b\u00a0x\u3000y", "<|im_start|>user\nHi<|im_end|>\n",
    "<|endoftext|>", "<|im_start|", "text<|im_end|>text", "<repo_name>a/b<file_sep>", "+ - +- -+", "`code` **bold** _it_ ~~x~~", "http://example.org/a?b=c&d=e#f",
    "for (int i = 0; i < 10; i++) { sum += a[i]; }", "a" * 60, "        eight spaces\n    four", "….—–‘’“”", "\x00\x01\x7f",
]
