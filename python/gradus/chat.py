"""Problems out of prompts: texts with a chat template, or messages."""

import re
from typing import Any

__all__ = ["last_user_message"]

# User turns of ChatML, Llama 3, Gemma, Phi and Zephyr, DeepSeek, and Mistral.
USER_TURN = re.compile(
    r"(?:<\|im_start\|>user\n|<\|start_header_id\|>user<\|end_header_id\|>|<start_of_turn>user\n|<\|user\|>|<｜User｜>"
    r"|\[INST\])"
    r"(.*?)"
    r"(?:<\|im_end\|>|<\|eot_id\|>|<end_of_turn>|<\|end\|>|</s>|<\|assistant\|>|<｜Assistant｜>|\[/INST\]|$)",
    re.DOTALL,
)


def last_user_message(prompt: Any) -> str:
    """The problem of a prompt: its last user message, from a text with a chat template or from messages."""
    if prompt is None:
        return ""
    if isinstance(prompt, str):
        turns = USER_TURN.findall(prompt)
        return str(turns[-1] if turns else prompt).strip()
    users = [message for message in prompt if message.get("role") == "user"]
    content = users[-1]["content"] if users else ""
    if isinstance(content, str):
        return content.strip()
    return "\n".join(part["text"] for part in content or [] if part.get("type") == "text").strip()
