//! Names of tensors in GGUF files for the names that transformers uses.

/// `layers.3.self_attn.q_proj.weight` → `blk.3.attn_q.weight`; unknown names stay as they are.
pub(super) fn in_gguf(name: &str) -> String {
    let whole = match name {
        "embed_tokens.weight" => Some("token_embd.weight"),
        "norm.weight" => Some("output_norm.weight"),
        "lm_head.weight" => Some("output.weight"),
        _ => None,
    };
    if let Some(whole) = whole {
        return whole.to_owned();
    }
    let parts = name.strip_prefix("layers.").and_then(|rest| rest.split_once('.'));
    let Some((layer, rest)) = parts else { return name.to_owned() };
    let Some((module, ending)) = rest.rsplit_once('.') else { return name.to_owned() };
    let module = match module {
        "self_attn.q_proj" => "attn_q",
        "self_attn.k_proj" => "attn_k",
        "self_attn.v_proj" => "attn_v",
        "self_attn.o_proj" => "attn_output",
        "self_attn.q_norm" => "attn_q_norm",
        "self_attn.k_norm" => "attn_k_norm",
        "mlp.gate_proj" => "ffn_gate",
        "mlp.up_proj" => "ffn_up",
        "mlp.down_proj" => "ffn_down",
        "input_layernorm" => "attn_norm",
        "post_attention_layernorm" => "ffn_norm",
        _ => return name.to_owned(),
    };
    format!("blk.{layer}.{module}.{ending}")
}

#[cfg(test)]
mod tests {
    use super::in_gguf;

    #[test]
    fn layers_and_ends_have_other_names() {
        assert_eq!(in_gguf("layers.3.self_attn.q_proj.bias"), "blk.3.attn_q.bias");
        assert_eq!(in_gguf("norm.weight"), "output_norm.weight");
        assert_eq!(in_gguf("score.0.weight"), "score.0.weight");
    }
}
