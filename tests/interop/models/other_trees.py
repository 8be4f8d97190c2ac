"""The trees of google-deepmind/gemma, T5X, EasyDeL, big_vision and torchtitan for models of Hugging Face.

Made with NumPy alone. Names and arithmetic were read in these programs' sources (the maps' `sources` name them).
"""

import numpy as np

from arithmetic import heads_of_columns, heads_of_rows, interleave_halves, pad_rows


def gemma_flax(hf, config, padded=True, transposed=True, prefix="model."):
    """The flat tree of the released checkpoints: a leaf of the module `transformer/layer_0/mlp/linear` is `../w`."""
    heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
    embedding = hf[prefix + "embed_tokens.weight"]
    rows = (len(embedding) // 128 + 1) * 128 if padded else len(embedding)
    found = {"transformer/embedder/input_embedding": pad_rows(embedding, rows),
             "transformer/final_norm/scale": hf[prefix + "norm.weight"]}
    for i in range(config.num_hidden_layers):
        theirs, ours = f"{prefix}layers.{i}.", f"transformer/layer_{i}/"
        query, key, value = (heads_of_rows(hf[f"{theirs}self_attn.{name}_proj.weight"], count).transpose(1, 0, 2)
                             for name, count in (("q", heads), ("k", kv_heads), ("v", kv_heads)))
        if heads == kv_heads:
            found[ours + "attn/qkv_einsum/w"] = np.stack([query, key, value])
        else:
            found[ours + "attn/q_einsum/w"] = query
            found[ours + "attn/kv_einsum/w"] = np.stack([key, value])
        found[ours + "attn/attn_vec_einsum/w"] = heads_of_columns(hf[theirs + "self_attn.o_proj.weight"], heads)
        gating = np.stack([hf[theirs + "mlp.gate_proj.weight"], hf[theirs + "mlp.up_proj.weight"]])
        found[ours + "mlp/gating_einsum/w"] = gating if transposed else gating.transpose(0, 2, 1)
        found[ours + "mlp/linear/w"] = hf[theirs + "mlp.down_proj.weight"].T
        found[ours + "pre_attention_norm/scale"] = hf[theirs + "input_layernorm.weight"]
        after = hf[theirs + "post_attention_layernorm.weight"]
        if theirs + "pre_feedforward_layernorm.weight" in hf:
            found[ours + "post_attention_norm/scale"] = after
            found[ours + "pre_ffw_norm/scale"] = hf[theirs + "pre_feedforward_layernorm.weight"]
            found[ours + "post_ffw_norm/scale"] = hf[theirs + "post_feedforward_layernorm.weight"]
        else:
            found[ours + "pre_ffw_norm/scale"] = after
        for name in ("query", "key"):
            if f"{theirs}self_attn.{name[0]}_norm.weight" in hf:
                found[f"{ours}attn/_{name}_norm/scale"] = hf[f"{theirs}self_attn.{name[0]}_norm.weight"]
    return found


def gemma_nested(flat):
    """The tree of the program's own `save_params`: no `transformer`, and no `w` in the MLP."""
    names = {name: name.removeprefix("transformer/") for name in flat}
    return {short.removesuffix("/w") if "/mlp/" in short else short: flat[name] for name, short in names.items()}


def gemma_stacked(flat, pattern):
    """Layers b, b + pattern, .. of the flat tree in one array for each b."""
    found, groups = {}, {}
    for name, array in flat.items():
        first, _, rest = name.removeprefix("transformer/").partition("/")
        if first.startswith("layer_"):
            i = int(first.removeprefix("layer_"))
            groups.setdefault(f"transformer/stacked_layers/attention_type_{i % pattern}/{rest}", {})[i] = array
        else:
            found[name] = array
    return {**found, **{name: np.stack([group[i] for i in sorted(group)]) for name, group in groups.items()}}


T5_PARTS = {
    "encoder": [("SelfAttention", "attention", "pre_attention_layer_norm")],
    "decoder": [("SelfAttention", "self_attention", "pre_self_attention_layer_norm"),
                ("EncDecAttention", "encoder_decoder_attention", "pre_cross_attention_layer_norm")],
}


def t5_layer(hf, stack, i, config, split):
    """One layer; `split` is the form of scalable_t5: heads are an axis, and the layer has a table of positions."""
    heads, at, found = config.num_heads, f"{stack}.block.{i}.layer.", {}
    for n, (theirs, ours, norm) in enumerate(T5_PARTS[stack]):
        found[norm + "/scale"] = hf[f"{at}{n}.layer_norm.weight"]
        for name in ("query", "key", "value"):
            weight = hf[f"{at}{n}.{theirs}.{name[0]}.weight"]
            found[f"{ours}/{name}/kernel"] = heads_of_rows(weight, heads) if split else weight.T
        weight = hf[f"{at}{n}.{theirs}.o.weight"]
        found[f"{ours}/out/kernel"] = heads_of_columns(weight, heads) if split else weight.T
    at += str(len(T5_PARTS[stack]))
    found["pre_mlp_layer_norm/scale"] = hf[at + ".layer_norm.weight"]
    for name in ("wi", "wi_0", "wi_1", "wo"):
        if f"{at}.DenseReluDense.{name}.weight" in hf:
            found[f"mlp/{name}/kernel"] = hf[f"{at}.DenseReluDense.{name}.weight"].T
    if split:  # UMT5 has a table for each layer, T5 one for all
        table = "{}.block.{}.layer.0.SelfAttention.relative_attention_bias.weight"
        own = table.format(stack, i)
        found["relpos_bias/rel_embedding"] = hf[own if own in hf else table.format(stack, 0)].T
    return found


def t5x(hf, config, split=False, scanned=False):
    found = {"token_embedder/embedding": hf["shared.weight"]}
    for stack in T5_PARTS:
        layers = [t5_layer(hf, stack, i, config, split) for i in range(config.num_layers)]
        if scanned:
            found.update({f"{stack}/{stack}/{name}": np.stack([layer[name] for layer in layers], 1) for name in layers[0]})
        else:
            found.update({f"{stack}/layers_{i}/{name}": array for i, layer in enumerate(layers) for name, array in layer.items()})
        if not split:
            table = hf[f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"]
            found[f"{stack}/relpos_bias/rel_embedding"] = table.T
        found[f"{stack}/{stack}_norm/scale"] = hf[stack + ".final_layer_norm.weight"]
    if "lm_head.weight" in hf:
        found["decoder/logits_dense/kernel"] = hf["lm_head.weight"].T
    return {"target/" + name: array for name, array in found.items()}


def easydel(hf):
    """The paths of Hugging Face. Matrices are transposed, and the experts of a layer are one array."""
    found, experts = {}, {}
    for name, array in hf.items():
        path = name.split(".")
        if "experts" in path:
            x = path.index("experts") + 1
            experts.setdefault("/".join([*path[:x], *path[x + 1 : -1], "kernel"]), {})[int(path[x])] = array.T
        elif path[-2] == "embed_tokens":
            found["/".join([*path[:-1], "embedding"])] = array
        elif path[-1] == "weight":
            found["/".join([*path[:-1], "kernel"])] = array.T
        else:
            found["/".join(path)] = array
    return {**found, **{name: np.stack([group[x] for x in sorted(group)]) for name, group in experts.items()}}


def torchtitan(hf, config, meta=False):
    """The names of Meta; torchtitan's own differ in two places. Rotary pairs are interleaved within each head."""
    def interleaved(weight, heads):
        return interleave_halves(weight.reshape(heads, -1, weight.shape[1]).transpose(0, 2, 1)).transpose(0, 2, 1).reshape(weight.shape)

    names = {"input_layernorm": "attention_norm", "post_attention_layernorm": "ffn_norm", "self_attn.o_proj": "attention.wo",
             "mlp.gate_proj": "feed_forward.w1", "mlp.up_proj": "feed_forward.w3", "mlp.down_proj": "feed_forward.w2"}
    top = {"model.embed_tokens.weight": "tok_embeddings.weight", "model.norm.weight": "norm.weight",
           "lm_head.weight": "output.weight" if meta else "lm_head.weight"}
    found = {ours: hf[theirs] for theirs, ours in top.items() if theirs in hf}
    if config.tie_word_embeddings:
        found[top["lm_head.weight"]] = hf["model.embed_tokens.weight"]
    for i in range(config.num_hidden_layers):
        theirs, ours = f"model.layers.{i}.", f"layers.{i}."
        found.update({f"{ours}{b}.weight": hf[f"{theirs}{a}.weight"] for a, b in names.items()})
        for name, heads in (("q", config.num_attention_heads), ("k", config.num_key_value_heads), ("v", None)):
            weight = hf[f"{theirs}self_attn.{name}_proj.weight"]
            where = "attention." if meta else "attention.qkv_linear."
            found[f"{ours}{where}w{name}.weight"] = interleaved(weight, heads) if heads else weight
    return found


def encoder_block(hf, at, heads):
    found = {}
    for n in (0, 1):
        found[f"LayerNorm_{n}/scale"], found[f"LayerNorm_{n}/bias"] = hf[f"{at}layer_norm{n + 1}.weight"], hf[f"{at}layer_norm{n + 1}.bias"]
        found[f"MlpBlock_0/Dense_{n}/kernel"], found[f"MlpBlock_0/Dense_{n}/bias"] = hf[f"{at}mlp.fc{n + 1}.weight"].T, hf[f"{at}mlp.fc{n + 1}.bias"]
    for name in ("query", "key", "value"):
        found[f"MultiHeadDotProductAttention_0/{name}/kernel"] = heads_of_rows(hf[f"{at}self_attn.{name[0]}_proj.weight"], heads)
        found[f"MultiHeadDotProductAttention_0/{name}/bias"] = hf[f"{at}self_attn.{name[0]}_proj.bias"].reshape(heads, -1)
    found["MultiHeadDotProductAttention_0/out/kernel"] = heads_of_columns(hf[at + "self_attn.out_proj.weight"], heads)
    found["MultiHeadDotProductAttention_0/out/bias"] = hf[at + "self_attn.out_proj.bias"]
    return found


def pooling_head(hf, heads):
    found, size = {"probe": hf["vision_model.head.probe"]}, hf["vision_model.head.probe"].shape[-1]
    weight, bias = hf["vision_model.head.attention.in_proj_weight"], hf["vision_model.head.attention.in_proj_bias"]
    for n, name in enumerate(("query", "key", "value")):
        rows = slice(n * size, (n + 1) * size)
        found[f"MultiHeadDotProductAttention_0/{name}/kernel"] = heads_of_rows(weight[rows], heads)
        found[f"MultiHeadDotProductAttention_0/{name}/bias"] = bias[rows].reshape(heads, -1)
    out = "vision_model.head.attention.out_proj."
    found["MultiHeadDotProductAttention_0/out/kernel"] = heads_of_columns(hf[out + "weight"], heads)
    found["MultiHeadDotProductAttention_0/out/bias"] = hf[out + "bias"]
    found["LayerNorm_0/scale"], found["LayerNorm_0/bias"] = hf["vision_model.head.layernorm.weight"], hf["vision_model.head.layernorm.bias"]
    for n in (0, 1):
        at = f"vision_model.head.mlp.fc{n + 1}."
        found[f"MlpBlock_0/Dense_{n}/kernel"], found[f"MlpBlock_0/Dense_{n}/bias"] = hf[at + "weight"].T, hf[at + "bias"]
    return found


def siglip(hf, config, scanned=False):
    text, vision = config.text_config, config.vision_config
    patches = hf["vision_model.embeddings.patch_embedding.weight"]
    found = {"t": hf["logit_scale"], "b": hf["logit_bias"],
             "txt/Embed_0/embedding": hf["text_model.embeddings.token_embedding.weight"],
             "txt/pos_embedding": hf["text_model.embeddings.position_embedding.weight"][None],
             "txt/Encoder_0/encoder_norm/scale": hf["text_model.final_layer_norm.weight"],
             "txt/Encoder_0/encoder_norm/bias": hf["text_model.final_layer_norm.bias"],
             "txt/head/kernel": hf["text_model.head.weight"].T, "txt/head/bias": hf["text_model.head.bias"],
             "img/embedding/kernel": patches.transpose(2, 3, 1, 0), "img/embedding/bias": hf["vision_model.embeddings.patch_embedding.bias"],
             "img/pos_embedding": hf["vision_model.embeddings.position_embedding.weight"][None],
             "img/Transformer/encoder_norm/scale": hf["vision_model.post_layernorm.weight"],
             "img/Transformer/encoder_norm/bias": hf["vision_model.post_layernorm.bias"]}
    found.update({"img/MAPHead_0/" + name: array for name, array in pooling_head(hf, vision["num_attention_heads"]).items()})
    for theirs, ours, part in (("text_model", "txt/Encoder_0", text), ("vision_model", "img/Transformer", vision)):
        blocks = [encoder_block(hf, f"{theirs}.encoder.layers.{i}.", part["num_attention_heads"]) for i in range(part["num_hidden_layers"])]
        if scanned:
            found.update({f"{ours}/encoderblock/{name}": np.stack([block[name] for block in blocks]) for name in blocks[0]})
        else:
            found.update({f"{ours}/encoderblock_{i}/{name}": array for i, block in enumerate(blocks) for name, array in block.items()})
    return {"params/" + name: array for name, array in found.items()}
