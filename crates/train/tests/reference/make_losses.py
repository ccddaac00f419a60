"""Writes losses.json: values and gradients of every loss from PyTorch's autograd, in double precision.

Run: python make_losses.py   (PyTorch 2.8; ORPO as TRL 0.19's ORPOTrainer, GRPO as its GRPOTrainer)
"""

import json
import os

import torch
import torch.nn.functional as F

torch.manual_seed(7)


def f32(tensor):
    """Round to what a float32 holds, so that Rust and PyTorch see the same inputs."""
    return tensor.float().double()


def leaf(*shape, scale=1.0, shift=0.0):
    return f32(torch.randn(*shape, dtype=torch.double) * scale + shift).requires_grad_()


def logprobs(n, scale=1.0):
    return f32(-torch.rand(n, dtype=torch.double) * scale - 0.01).requires_grad_()


def done(value, *inputs):
    gradients = torch.autograd.grad(value, inputs, allow_unused=True)
    gradients = [torch.zeros_like(i) if g is None else g for i, g in zip(inputs, gradients)]
    return {"value": value.item(), "gradients": [g.flatten().tolist() for g in gradients]}


def labels():
    cases = []
    for scale in (1.0, 8.0):
        logits, targets = leaf(5, 3, scale=scale), torch.tensor([0, 2, 1, 1, 0])
        cases.append({"loss": "cross_entropy", "inputs": logits.flatten().tolist(), "classes": 3,
                      "classes_of": targets.tolist(), **done(F.cross_entropy(logits, targets), logits)})
        soft = f32(torch.tensor([0.0, 0.125, 0.875, 1.0, 0.5]))
        logits = leaf(5, 2, scale=scale)
        mse = ((logits.softmax(-1)[:, 1] - soft) ** 2).mean()
        cases.append({"loss": "squared_error_of_probability", "inputs": logits.flatten().tolist(), "classes": 2,
                      "positive": 1, "targets": soft.tolist(), **done(mse, logits)})
        entropy = F.cross_entropy(logits, torch.stack([1 - soft, soft], -1))
        cases.append({"loss": "cross_entropy_of_probability", "inputs": logits.flatten().tolist(), "positive": 1,
                      "targets": soft.tolist(), **done(entropy, logits)})
        values = leaf(5, scale=scale)
        cases.append({"loss": "binary_cross_entropy", "inputs": values.tolist(), "targets": soft.tolist(),
                      **done(F.binary_cross_entropy_with_logits(values, soft), values)})
        values = leaf(5, scale=scale)
        cases.append({"loss": "squared_error_of_sigmoid", "inputs": values.tolist(), "targets": soft.tolist(),
                      **done(F.mse_loss(values.sigmoid(), soft), values)})
        tokens, weights = logprobs(6, scale), f32(torch.tensor([1.0, 0.0, 0.5, 2.0, 1.0, 0.25]))
        cases.append({"loss": "negative_log_likelihood", "inputs": tokens.tolist(), "targets": weights.tolist(),
                      **done(-(weights * tokens).sum() / weights.sum(), tokens)})
    return cases


def pairs():
    cases = []
    for scale in (1.0, 8.0):
        for classes, positive in ((1, 0), (2, 0), (2, 1), (3, 1)):
            outputs, chosen = leaf(5, classes, scale=scale), [(0, 1), (0, 3), (2, 1), (4, 3)]
            others = [c for c in range(classes) if c != positive]
            v = outputs[:, positive] - (outputs[:, others].logsumexp(-1) if others else 0.0)
            right, wrong = (torch.tensor(side) for side in zip(*chosen))
            cases.append({"inputs": outputs.flatten().tolist(), "classes": classes, "positive": positive, "pairs": chosen,
                          **done(-F.logsigmoid(v[right] - v[wrong]).mean(), outputs)})
    return cases


def orpo(lengths, scale, beta):
    pairs = [(logprobs(c, scale), logprobs(r, scale)) for c, r in lengths]
    chosen = torch.stack([c.mean() for c, _ in pairs])
    rejected = torch.stack([r.mean() for _, r in pairs])
    nll = -torch.cat([c for c, _ in pairs]).mean()  # cross_entropy_loss over the batch's flat chosen tokens
    log_odds = (chosen - rejected) - (torch.log1p(-torch.exp(chosen)) - torch.log1p(-torch.exp(rejected)))
    losses = beta * F.logsigmoid(log_odds)
    flat = [side for pair in pairs for side in pair]
    return {"lambda": beta, "pairs": [[c.tolist(), r.tolist()] for c, r in pairs], "nll": nll.item(),
            "odds_ratio": -F.logsigmoid(log_odds).mean().item(), **done(nll - losses.mean(), *flat)}


def grpo(length, kl, class_level, advantages, truths, low=0.2, high=0.2):
    lengths = [3, 1, 5, 2][: len(advantages)]
    now = [logprobs(n, 2.0) for n in lengths]
    old = [f32(n.detach() + 0.3 * torch.randn(len(n), dtype=torch.double)) for n in now]
    ref = [f32(n.detach() + 0.3 * torch.randn(len(n), dtype=torch.double)) for n in now] if kl else None
    policies, tokens = [], []
    for i, n in enumerate(now):
        coef = torch.exp(n - old[i])
        loss = -torch.min(coef * advantages[i], torch.clamp(coef, 1 - low, 1 + high) * advantages[i])
        policies.append(loss)
        if ref:
            loss = loss + kl * (torch.exp(ref[i] - n) - (ref[i] - n) - 1)
        tokens.append(loss)

    def mean(losses):
        if length == "per_sample":
            return torch.stack([l.mean() for l in losses]).mean()
        if length == "per_batch_token":
            return torch.cat(losses).mean()
        return torch.stack([l.sum() for l in losses]).mean() / length["constant"]

    if class_level:
        # The policy term decides who counts: with a KL term, the sum is not 0 where the advantage is.
        kept = [[l for l, p, t in zip(tokens, policies, truths) if t == c and p.abs().sum().item() != 0.0]
                for c in ("correct", "wrong")]
        kept = [mean(k) for k in kept if k]
        value = torch.stack(kept).mean() if kept else sum(n.sum() for n in now) * 0.0
    else:
        value = mean(tokens)
    return {"settings": {"clip_low": low, "clip_high": high, "kl": kl, "length": length, "class_level": class_level},
            "now": [n.tolist() for n in now], "old": [o.tolist() for o in old],
            "reference": [r.tolist() for r in ref] if ref else None,
            "advantages": advantages, "truths": truths, **done(value, *now)}


def advantages():
    cases = []
    for rewards in ([0.1, 0.9, 0.0, 0.9, 0.8], [0.7, 1.3, 0.0, 0.1]):
        r = torch.tensor(rewards, dtype=torch.double)
        cases.append({"rewards": rewards, "plain": (r - r.mean()).tolist(),
                      "normalized": ((r - r.mean()) / r.std()).tolist()})
    return cases


both, mixed = ["correct", "wrong", "wrong", "correct"], [1.0, -0.5, 0.75, -1.25]
grpos = [grpo(length, kl, level, mixed, both, 0.2, high)
         for length in ("per_sample", {"constant": 8}, "per_batch_token")
         for kl, high in ((0.0, 0.2), (0.04, 0.28)) for level in (False, True)]
grpos.append(grpo("per_sample", 0.04, True, mixed, ["wrong"] * 4))  # one class absent
grpos.append(grpo("per_sample", 0.0, True, [0.0, 0.0, 1.0, -1.0], both))  # a group without variance
grpos.append(grpo("per_sample", 0.0, True, [0.0] * 4, both))  # nothing but such groups
# The same with a KL term, which groups without variance have too.
grpos += [grpo(length, 0.04, True, [0.0, 0.0, 1.0, -1.0], both)
          for length in ("per_sample", {"constant": 8}, "per_batch_token")]
grpos.append(grpo("per_sample", 0.04, True, [0.0] * 4, both))
orpos = [orpo([(3, 4), (6, 2)], 2.0, 0.1), orpo([(1, 1)], 1e-3, 1.0), orpo([(2, 5), (4, 4), (1, 3)], 30.0, 0.25)]

out = os.path.join(os.path.dirname(os.path.abspath(__file__)), "losses.json")
with open(out, "w") as file:
    json.dump({"labels": labels(), "orpo": orpos, "grpo": grpos, "advantages": advantages(), "pairs": pairs()}, file, indent=None)
    file.write("\n")
