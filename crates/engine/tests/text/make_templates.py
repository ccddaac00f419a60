"""templates.json: what transformers renders from templates that use, between them, what models' templates use.

Made with transformers 5.22; run: python make_templates.py > templates.json
"""

import json

from transformers.utils.chat_template_utils import render_jinja_template

PLAIN = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": " Hi <b> & \"you\"\u2028'é'\n"}, {"role": "assistant", "content": "<think>\nhm\n</think>\n\nHello"}]
TEMPLATES = {
    "blocks are trimmed": "{{ bos_token }}\n{% for message in messages %}\n    {% if message.role == 'user' %}\n  U: {{ message.content }}\n    {% else %}\n{{ message['role'] | upper }}: {{ message['content'] | trim }}\n    {%- endif %}\n\n{% endfor %}\n{% if add_generation_prompt %}\nA:{% endif %}\n\n",
    "one newline at the end goes": "{{ messages | length }}\n",
    "python methods": "{% for m in messages %}{{ m.content.strip().upper() }}|{{ m['content'].split('</think>')[-1].lstrip('\\n') }}|{{ m.role.startswith('us') }}|{{ m.content.replace('<b>', '').rstrip() }}|{{ m.get('tool_calls') }}|{{ m.get('name', 'x') }}|{% for k, v in m.items() %}{{ k }}={{ v | length }};{% endfor %}\n{% endfor %}{{ 'ab'.title() }}{{ 'x,y,z'.split(',', 1)[1] }}{{ 'a-b'.find('-') }}",
    "namespace, slices, loop controls": "{% set ns = namespace(found=false, n=0) %}{% for m in messages[1:] %}{% if m.role == 'assistant' %}{% set ns.found = true %}{% break %}{% endif %}{% set ns.n = ns.n + 1 %}{% continue %}never{% endfor %}{{ ns.found }} {{ ns.n }} {{ messages[::-1][0].role }} {{ messages[-1]['role'] }} {{ loop_undefined is defined }} {{ tools is none }} {{ documents is defined }}",
    "loop variables": "{% for m in messages %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{% if not loop.last %}{{ loop.nextitem.role }}{% endif %}{{ ' ' if loop.previtem is undefined else loop.previtem.role }}{% endfor %}",
    "json": "{{ messages | tojson }}\n{{ messages[0] | tojson(indent=4) }}\n{{ {'a': [], 'b': {}, 'c': [1, 2.5, none, true], 'é': '</x>\\u2028\\n'} | tojson }}\n{{ {'a': [1, {'b': []}]} | tojson(indent=2) }}",
    "values print as in Python": "{{ true }} {{ false }} {{ none }} {{ 1.0 }} {{ 3 // 2 }} {{ 3 / 2 }} {{ 2 ** 3 }} {{ 7 % 3 }} {{ 'a' ~ 1 ~ true }} {{ undefined_thing }}",
    "tests and filters": "{{ messages[0].content is string }} {{ messages is iterable }} {{ messages[0] is mapping }} {{ 'x' is not none }} {{ messages | map(attribute='role') | join(',') }} {{ messages | selectattr('role', 'equalto', 'user') | list | length }} {{ (messages | first).role }} {{ 'a b' | replace(' ', '_') | capitalize }} {{ [3,1,2] | sort | join }} {{ 'x' | default('y') }} {{ nothing | default('y') }} {{ 'user' in ['user'] }} {{ messages | rejectattr('role', 'equalto', 'user') | map(attribute='role') | list | join('/') }}",
    "macros and whitespace control": "{%- macro turn(role, text='') -%}\n<{{ role }}>{{ text }}\n{%- endmacro -%}\n{%- for m in messages -%}\n  {{- turn(m.role, text=m.content | trim) -}}\n{%- endfor +%}\n  end {#- a comment -#}\n  !",
    "generation marks": "{% for m in messages %}{% if m.role == 'assistant' %}{%- generation -%}  {{ m.content }}{% endgeneration %}\n{% endif %}{% endfor %}",
    "conditions": "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% endif %}{{ system if system is defined else 'none' }}:{% for m in loop_messages %}{{ '[INST] ' + m.content + ' [/INST]' if m.role == 'user' else ' ' + m['content'] + eos_token }}{% endfor %}{% if (messages | length) % 2 == 1 and not tools %}odd{% elif tools %}never{% endif %}",
}


def main():
    cases = []
    for name, template in TEMPLATES.items():
        for messages, add in [(PLAIN, False), (PLAIN[:2], True)]:
            if name == "generation marks" and len(messages) < 3:
                continue
            rendered, _ = render_jinja_template(
                [messages], chat_template=template, add_generation_prompt=add, bos_token="<s>", eos_token="</s>"
            )
            cases.append({"name": name, "template": template, "messages": messages, "add": add, "rendered": rendered[0]})
    print("[" + ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases) + "]")


main()
