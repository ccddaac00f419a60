"""profiles/expected.json: what each family of process reward models reads and answers, on the tiny models.

Made with torch 2.8.0 and transformers 4.57.1 (f32, eager attention) on the models of ../make_models.py, with three invented problems.
Run: `python profiles/make_profiles.py` in the folder above. Each family below follows the recipe its authors publish; every choice of newline and space is
said there. The token ids are the recipe's own, and the scores are computed one prompt per step where the family is prompted or chat-turned.

  problems[]: problem, sentences (the problem cut into sentences, for SPARE), steps, references (for retrieval: questions with labelled steps),
              reference_steps (for retrieval: per target step, the retrieved steps)
  families.<family>: model (folder under ../models), score (how a score is read), and cases[], one per problem, in the same order:
    one-pass families   text (rendered; for families put together from ids it is the decoded ids), ids, positions (one per step), scores (one per step)
    one prompt per step prompts[]: text, ids, position; scores; rlhflow adds one_pass: ids and positions that give the same scores in one forward pass
"""

import json
import os
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen2ForTokenClassification

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(FOLDER))
from make_models import HERE, load_custom, short  # noqa: E402

PROBLEMS = [
    {
        "problem": "Mia has 3 red pens and twice as many blue pens. How many pens does she have?",
        "sentences": ["Mia has 3 red pens and twice as many blue pens.", "How many pens does she have?"],
        "steps": ["She has 2 * 3 = 6 blue pens.", "In total she has 3 + 6 = 9 pens.", "The answer is \\boxed{9}."],
        "references": [
            {"question": "Ben has 2 cats and 5 dogs. How many pets has he?", "steps": ["He has 2 + 5 = 7 pets."], "labels": [True]},
            {"question": "A box holds 4 rows of 6 eggs. How many eggs?", "steps": ["Each row has 6 eggs.", "4 + 6 = 10 eggs."], "labels": [True, False]},
        ],
        "reference_steps": [
            [{"step": "Twice 4 is 2 * 4 = 8.", "correct": True}],
            [{"step": "In total there are 4 + 8 = 13.", "correct": False}],
            [{"step": "So the answer is 12.", "correct": True}],
        ],
    },
    {
        # The problem ends in a full stop: `.` and the newline after it are one token when encoded together.
        "problem": "Solve for x: 2x + 1 = 7.",
        "sentences": ["Solve for x: 2x + 1 = 7."],
        # The second step has a newline of its own; the last one ends in a letter, with no full stop.
        "steps": ["Take 1 from both sides.", "Then\n2x = 8", "x = 4, said – naïvely – the pupil"],
        "references": [{"question": "Solve 3y = 9.", "steps": ["y = 9 / 3", "y = 3"], "labels": [True, True]}],
        "reference_steps": [[], [{"step": "2x = 6", "correct": True}, {"step": "2x = 8", "correct": False}], []],
    },
    {
        "problem": "What is 5 - 8?",
        "sentences": ["What is 5 - 8?"],
        "steps": ["5 - 8 = -3"],
        "references": [],
        "reference_steps": [[]],
    },
]


def causal(name):
    folder = os.path.join(HERE, "models", name)
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()


tokenizer = AutoTokenizer.from_pretrained(os.path.join(HERE, "models", "llama"))
# The tiny tokenizer adds no bos token by itself. Recipes that say `encode(text)` therefore have none here; with a tokenizer that adds one (Llama, Mistral)
# the same call puts it in front, and recipes that encode piece by piece then pass add_special_tokens=False for all but the first piece.
encode = lambda text: tokenizer.encode(text)
PLUS, MINUS = tokenizer.convert_tokens_to_ids(["+", "-"])
TAG = encode(" ки")[-1]
NEWLINE = encode("\n")[-1]


def plus_probability(logits):
    return logits[[PLUS, MINUS]].softmax(-1)[0].item()


def qwen_math_prm():
    """System, user, assistant = steps joined by <extra_0> and ending in it, no spaces or newlines around it; whole chat rendered, then encoded."""
    model = load_custom("qwen2-prm")
    separator = encode("<extra_0>")[0]
    cases = []
    for item in PROBLEMS:
        messages = [
            {"role": "system", "content": "Please reason step by step, and put your final answer within \\boxed{}."},
            {"role": "user", "content": item["problem"]},
            {"role": "assistant", "content": "<extra_0>".join(item["steps"]) + "<extra_0>"},
        ]
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=False)
        ids = encode(text)
        positions = [i for i, token in enumerate(ids) if token == separator]
        scores = model(torch.tensor([ids]))[0].softmax(-1)[positions, 1]
        cases.append({"text": text, "ids": ids, "positions": positions, "scores": short(scores)})
    return {"model": "qwen2-prm", "score": "softmax of two classes at <extra_0>, class 1", "cases": cases}


def skywork():
    """encode(bos + problem + newline) as one text; the response is cut at every newline, each line is encoded alone and the newline's id appended.

    A step with newlines inside has several such lines: `line_positions` has all of them (what the authors' code flags), `positions` the last of each step.
    The last step also gets its newline. Empty lines become a lone newline id.
    """
    model = load_custom("skywork")
    cases = []
    for item in PROBLEMS:
        ids = encode(tokenizer.bos_token + item["problem"] + "\n")
        line_positions, positions = [], []
        for step in item["steps"]:
            for line in step.split("\n"):
                ids += (encode(line) if line else []) + [NEWLINE]
                line_positions.append(len(ids) - 1)
            positions.append(len(ids) - 1)
        values = model(torch.tensor([ids]))[0].sigmoid()
        cases.append({
            "text": tokenizer.decode(ids), "ids": ids, "line_positions": line_positions, "line_scores": short(values[line_positions]),
            "positions": positions, "scores": short(values[positions]),
        })
    return {"model": "skywork", "score": "sigmoid of the value at the newline that ends a step", "cases": cases}


def rlhflow():
    """Turns: user = problem + space + step 1, assistant = +, user = step 2, assistant = +, …; one forward per step, no system message.

    The authors read logits[-3], which in Llama 3's template is the position before the last `+` (after it come <|eot_id|> and nothing else, so -1 is
    <|eot_id|>, -2 is +). Here it is the position before the last turn's `+`, whatever follows. Earlier assistant turns hold `+` whatever was scored.
    """
    model = causal("llama")
    cases = []
    for item in PROBLEMS:
        conversation, prompts, scores = [], [], []
        for k, step in enumerate(item["steps"]):
            conversation.append({"role": "user", "content": item["problem"] + " " + step if k == 0 else step})
            conversation.append({"role": "assistant", "content": "+"})
            text = tokenizer.apply_chat_template(conversation, tokenize=False)
            ids = encode(text)
            # `+<|im_end|>\n` closes the turn.
            position = len(ids) - 4
            assert ids[position + 1] == PLUS
            prompts.append({"text": text, "ids": ids, "position": position})
            scores.append(plus_probability(model(torch.tensor([ids]), use_cache=False).logits[0, position]))
        whole = model(torch.tensor([ids]), use_cache=False).logits[0]
        positions = [prompt["position"] for prompt in prompts]
        assert all(prompt["ids"] == ids[: len(prompt["ids"])] for prompt in prompts)
        assert all(abs(plus_probability(whole[p]) - s) < 1e-5 for p, s in zip(positions, scores))
        cases.append({"prompts": prompts, "scores": short(scores), "one_pass": {"ids": ids, "positions": positions}})
    return {"model": "llama", "score": "softmax over (+, -) at the position that predicts the assistant's token, first", "cases": cases}


def tagged(model, text, plus_first):
    ids = encode(text)
    positions = [i for i, token in enumerate(ids) if token == TAG]
    logits = model(torch.tensor([ids]), use_cache=False).logits[0]
    pair = [PLUS, MINUS] if plus_first else [MINUS, PLUS]
    scores = logits[positions][:, pair].softmax(-1)[:, 0 if plus_first else 1]
    return {"text": text, "ids": ids, "positions": positions, "scores": short(scores)}


def math_shepherd():
    """problem + space + steps; each step is followed by ` ки`, and a newline stands between steps, not after the last tag. No chat.

    The published examples begin each step with `Step 1: `; that is part of the step's text, and nothing is added here.
    """
    model = causal("mistral")
    cases = []
    for item in PROBLEMS:
        text = item["problem"] + " " + "\n".join(step + " ки" for step in item["steps"])
        case = tagged(model, text, plus_first=True)
        # The same ids come from pieces, with the tag put in as an id.
        pieces = []
        for k, step in enumerate(item["steps"]):
            pieces += encode(item["problem"] + " " + step if k == 0 else "\n" + step) + [TAG]
        assert pieces == case["ids"] and len(case["positions"]) == len(item["steps"])
        cases.append(case)
    return {"model": "mistral", "score": "softmax over (+, -) at the tag, first", "cases": cases}


SPARE_INSTRUCTION = (
    "You are an expert at solving challenging math problems spanning across various categories and difficulties such as Algebra, Number Theory, Geometry, "
    "Counting and Probability, Precalculus etc. For a given math problem, your task is to generate a step-by-step reasoning-based solution providing an answer "
    "to the question. Identify the correct concepts, formulas and heuristics that needs to be applied and then derive the contents of the reasoning steps from "
    "the given contexts and accurate calculations from the previous reasoning steps."
)


def spare():
    """system = the authors' instruction, user = sentences joined by ` </S>` + newline (none after the last), and a second USER turn with the solution:
    `Let's think step by step.` + newline, then every step + ` ки` + newline, the last one too. No generation prompt.

    The tiny template keeps the final newline; Llama 3's template trims each message, so there it disappears.
    """
    model = causal("llama3-rope")
    cases = []
    for item in PROBLEMS:
        messages = [
            {"role": "system", "content": SPARE_INSTRUCTION},
            {"role": "user", "content": " </S>\n".join(item["sentences"])},
            {"role": "user", "content": "Let's think step by step.\n" + "".join(step + " ки\n" for step in item["steps"])},
        ]
        case = tagged(model, tokenizer.apply_chat_template(messages, tokenize=False), plus_first=False)
        assert len(case["positions"]) == len(item["steps"])
        cases.append(case)
    return {"model": "llama3-rope", "score": "softmax over (-, +) at the tag, second", "cases": cases}


PLAIN_SYSTEM = (
    "I want you to act as a math teacher. I will provide a mathematical question and several solution steps, and it will be your job to judge whether these "
    "steps are correct or not."
)
RETRIEVAL_SYSTEM = PLAIN_SYSTEM + (
    " First I will give you some similar questions and their steps for reference. For each step, if the step is correct, the step is labeled as +. If the step "
    "is wrong, the step is labeled as -. If there is no relevant or helpful information in the provided questions and steps, try to answer yourself."
)


def ask(model, system, user):
    messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    ids = encode(text)
    score = plus_probability(model(torch.tensor([ids]), use_cache=False).logits[0, -1])
    return {"text": text, "ids": ids, "position": len(ids) - 1}, score


def prompted_case(model, system, users):
    answers = [ask(model, system, user) for user in users]
    return {"prompts": [prompt for prompt, _ in answers], "scores": short([score for _, score in answers])}


def plain_user(item, k):
    """Lines joined by one newline, none at the end; the steps up to and with the one asked about."""
    steps = [f"Step {i} : {step}" for i, step in enumerate(item["steps"][: k + 1], 1)]
    return "\n".join(["Question:", item["problem"], "Process:", *steps, "Is that Step Correct? You should ONLY tell me + or -."])


def retrieval_user(item, k):
    """Lines joined by one newline, none at the end and no empty lines. Steps of references carry no number: step + ` (+)` or ` (-)`.

    Earlier steps stand under `Process:`; for the first step that list is empty. Reference steps are numbered from 1 within the prompt;
    one that is wrong says `is incorrect`. FORMATS names only the correct case: the other wording is our choice.
    """
    lines = []
    for n, reference in enumerate(item["references"], 1):
        marked = [f"{step} ({'+' if good else '-'})" for step, good in zip(reference["steps"], reference["labels"])]
        lines += [f"Reference Question {n}:", reference["question"], "Process:", *marked]
    lines += ["Target Question:", item["problem"], "Process:"]
    lines += [f"Step {i} : {step}" for i, step in enumerate(item["steps"][:k], 1)]
    for n, reference in enumerate(item["reference_steps"][k], 1):
        verdict = "correct" if reference["correct"] else "incorrect"
        lines += [f"Reference Step {n}:", f"{reference['step']} This reference step is {verdict}."]
    lines += [f"Target Step {k + 1} :", item["steps"][k], "Is the Step Correct? You should ONLY tell me + or -."]
    return "\n".join(lines)


def prompted(system, user):
    model = causal("qwen2")
    cases = [prompted_case(model, system, [user(item, k) for k in range(len(item["steps"]))]) for item in PROBLEMS]
    return {"model": "qwen2", "score": "softmax over (+, -) at the last position of the prompt, first", "cases": cases}


def trl():
    """bos + encode(problem) + for each step encode(step) + encode(newline), every piece alone; read at the newline (TRL's PRM trainer)."""
    folder = os.path.join(HERE, "models", "qwen2-token-classification")
    model = Qwen2ForTokenClassification.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    cases = []
    for item in PROBLEMS:
        ids, positions = [tokenizer.bos_token_id] + encode(item["problem"]), []
        for step in item["steps"]:
            ids += encode(step) + [NEWLINE]
            positions.append(len(ids) - 1)
        scores = model(torch.tensor([ids]), use_cache=False).logits[0].softmax(-1)[positions, 1]
        cases.append({"text": tokenizer.decode(ids), "ids": ids, "positions": positions, "scores": short(scores)})
    return {"model": "qwen2-token-classification", "score": "softmax of two classes at the separator, class 1", "cases": cases}


if __name__ == "__main__":
    with torch.no_grad():
        families = {
            "qwen2.5-math-prm": qwen_math_prm(), "skywork-o1-prm": skywork(), "rlhflow": rlhflow(), "math-shepherd": math_shepherd(), "spare": spare(),
            "plain": prompted(PLAIN_SYSTEM, plain_user), "retrieval": prompted(RETRIEVAL_SYSTEM, retrieval_user), "trl": trl(),
        }
    with open(os.path.join(FOLDER, "expected.json"), "w") as out:
        json.dump({"problems": PROBLEMS, "families": families}, out, ensure_ascii=False, separators=(",", ":"))
        out.write("\n")
    for name, family in families.items():
        print(name, [case["scores"] for case in family["cases"]])
