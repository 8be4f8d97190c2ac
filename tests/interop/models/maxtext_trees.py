"""The trees that MaxText has for models of Hugging Face, made with NumPy alone.

Names and arithmetic were read in MaxText's converters (the maps' `sources` name them). Keys are paths below the
parameters; each family is a function from its tensors and configuration to layers, and a way to group the layers.
"""

import numpy as np

from arithmetic import add, as_bfloat16, heads_of_columns, heads_of_rows, interleave_halves, multiply, pad_rows


def attention(hf, at, config, query=1.0, interleaved=False, name="self_attention"):
    heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
    order = interleave_halves if interleaved else lambda array: array
    found = {
        f"{name}/query/kernel": multiply(order(heads_of_rows(hf[at + "self_attn.q_proj.weight"], heads)), query),
        f"{name}/key/kernel": order(heads_of_rows(hf[at + "self_attn.k_proj.weight"], kv_heads)),
        f"{name}/value/kernel": heads_of_rows(hf[at + "self_attn.v_proj.weight"], kv_heads),
        f"{name}/out/kernel": heads_of_columns(hf[at + "self_attn.o_proj.weight"], heads),
    }
    for ours, theirs, count in (("query", "q", heads), ("key", "k", kv_heads), ("value", "v", kv_heads)):
        if at + f"self_attn.{theirs}_proj.bias" in hf:
            found[f"{name}/{ours}/bias"] = hf[at + f"self_attn.{theirs}_proj.bias"].reshape(count, -1)
    return found


def transposed(hf, at, names):
    return {ours: hf[at + theirs].T for ours, theirs in names.items()}


def copied(hf, at, names):
    return {ours: hf[at + theirs] for ours, theirs in names.items()}


NORMS = {
    "pre_self_attention_layer_norm/scale": "input_layernorm.weight",
    "post_self_attention_layer_norm/scale": "post_attention_layernorm.weight",
}
MLP = {
    "mlp/wi_0/kernel": "mlp.gate_proj.weight",
    "mlp/wi_1/kernel": "mlp.up_proj.weight",
    "mlp/wo/kernel": "mlp.down_proj.weight",
}
GEMMA_NORMS = {
    "pre_self_attention_norm/scale": "input_layernorm.weight",
    "post_self_attention_norm/scale": "post_attention_layernorm.weight",
    "pre_ffw_norm/scale": "pre_feedforward_layernorm.weight",
    "post_ffw_norm/scale": "post_feedforward_layernorm.weight",
}


def experts(hf, at, block, inside, names):
    """Arrays of all experts, (x, in, out), from one tensor (out, in) an expert."""
    count = len({key for key in hf if key.startswith(at + inside) and key.endswith(names[0] + ".weight")})
    return {f"{block}/{ours}": np.stack([hf[f"{at}{inside}.{x}.{theirs}.weight"].T for x in range(count)])
            for ours, theirs in zip(("wi_0", "wi_1", "wo"), names)}


def llama_layer(hf, at, config, interleaved=False):
    return {**copied(hf, at, NORMS), **attention(hf, at, config, config.head_dim**-0.5, interleaved), **transposed(hf, at, MLP)}


def mixtral_layer(hf, at, config):
    gate = {"MoeBlock_0/gate/kernel": "block_sparse_moe.gate.weight"}
    return {**copied(hf, at, NORMS), **attention(hf, at, config, config.head_dim**-0.5), **transposed(hf, at, gate),
            **experts(hf, at, "MoeBlock_0", "block_sparse_moe.experts", ("w1", "w3", "w2"))}


def qwen_layer(hf, at, config):
    found = {**copied(hf, at, NORMS), **attention(hf, at, config)}
    for ours, theirs in (("query", "q"), ("key", "k")):
        if at + f"self_attn.{theirs}_norm.weight" in hf:
            found[f"self_attention/{ours}_norm/scale"] = hf[at + f"self_attn.{theirs}_norm.weight"]
    if at + "mlp.gate.weight" not in hf:
        return {**found, **transposed(hf, at, MLP)}
    return {**found, **transposed(hf, at, {"moe_block/gate/kernel": "mlp.gate.weight"}),
            **experts(hf, at, "moe_block", "mlp.experts", ("gate_proj", "up_proj", "down_proj"))}


def plus_one(found):
    return {name: add(array, 1) if "norm" in name else array for name, array in found.items()}


def gemma_layer(hf, at, config):
    norms = {"pre_self_attention_norm/scale": "input_layernorm.weight", "pre_ffw_norm/scale": "post_attention_layernorm.weight"}
    return plus_one({**copied(hf, at, norms), **attention(hf, at, config, config.head_dim**-0.5), **transposed(hf, at, MLP)})


def gemma2_layer(hf, at, config):
    return plus_one({**copied(hf, at, GEMMA_NORMS), **attention(hf, at, config, config.query_pre_attn_scalar**-0.5),
                     **transposed(hf, at, MLP)})


def gemma3_layer(hf, at, config):
    norms = {**GEMMA_NORMS, "self_attention/query_norm/scale": "self_attn.q_norm.weight",
             "self_attention/key_norm/scale": "self_attn.k_norm.weight"}
    return plus_one({**copied(hf, at, norms), **attention(hf, at, config), **transposed(hf, at, MLP)})


def deepseek_layer(hf, at, config):
    heads = config.num_attention_heads
    found = {**copied(hf, at, {**NORMS, "self_attention/kv_norm/scale": "self_attn.kv_a_layernorm.weight"}),
             **transposed(hf, at, {"self_attention/wkv_a/kernel": "self_attn.kv_a_proj_with_mqa.weight"}),
             "self_attention/wkv_b/kernel": heads_of_rows(hf[at + "self_attn.kv_b_proj.weight"], heads),
             "self_attention/out/kernel": heads_of_columns(hf[at + "self_attn.o_proj.weight"], heads)}
    if config.q_lora_rank:
        found["self_attention/wq_a/kernel"] = hf[at + "self_attn.q_a_proj.weight"].T
        found["self_attention/q_norm/scale"] = hf[at + "self_attn.q_a_layernorm.weight"]
        found["self_attention/wq_b/kernel"] = heads_of_rows(hf[at + "self_attn.q_b_proj.weight"], heads)
    else:
        found["self_attention/query/kernel"] = heads_of_rows(hf[at + "self_attn.q_proj.weight"], heads)
    if at + "mlp.gate.weight" not in hf:
        return {**found, **transposed(hf, at, MLP)}
    block = "DeepSeekMoeBlock_0/MoeBlock_0"
    shared = {f"DeepSeekMoeBlock_0/shared_experts/{ours}/kernel": f"mlp.shared_experts.{theirs}.weight"
              for ours, theirs in (("wi_0", "gate_proj"), ("wi_1", "up_proj"), ("wo", "down_proj"))}
    if at + "mlp.gate.e_score_correction_bias" in hf:
        found[f"{block}/gate/bias"] = hf[at + "mlp.gate.e_score_correction_bias"]
    return {**found, **transposed(hf, at, {**shared, f"{block}/gate/kernel": "mlp.gate.weight"}),
            **experts(hf, at, block, "mlp.experts", ("gate_proj", "up_proj", "down_proj"))}


def gpt_oss_layer(hf, at, config):
    fused, bias = hf[at + "mlp.experts.gate_up_proj"], hf[at + "mlp.experts.gate_up_proj_bias"]
    return {**copied(hf, at, {**NORMS, "GptOssAttention/out/bias": "self_attn.o_proj.bias", "GptOssAttention/sinks": "self_attn.sinks",
                              "GptOssMlp/gate/bias": "mlp.router.bias", "GptOssMlp/wo": "mlp.experts.down_proj",
                              "GptOssMlp/wo_bias": "mlp.experts.down_proj_bias"}),
            **attention(hf, at, config, name="GptOssAttention"), "GptOssMlp/gate/kernel": hf[at + "mlp.router.weight"].T,
            "GptOssMlp/wi_0": fused[..., ::2], "GptOssMlp/wi_1": fused[..., 1::2],
            "GptOssMlp/wi_0_bias": bias[..., ::2], "GptOssMlp/wi_1_bias": bias[..., 1::2]}


def stack(prefix, layers):
    """One array for all layers; the layers are axis 1 of it."""
    return {prefix + name: np.stack([layer[name] for layer in layers], 1) for name in layers[0]}


def each(prefix, layers):
    return {f"{prefix}_{i}/{name}": array for i, layer in enumerate(layers) for name, array in layer.items()}


def plain(layers, scanned):
    return stack("decoder/layers/", layers) if scanned else each("decoder/layers", layers)


def in_pairs(layers, scanned):
    """Gemma 2: two layers of Hugging Face are one block, the local one first."""
    def half(layer, suffix):
        parts = {name: name.partition("/") for name in layer}
        return {f"{first}_{suffix}/{rest}": layer[name] for name, (first, _, rest) in parts.items()}

    blocks = [{**half(local, "local"), **half(other, "global")} for local, other in zip(layers[::2], layers[1::2])]
    return plain(blocks, scanned)


def in_sixes(layers, scanned):
    """Gemma 3: a scanned block holds six layers; those that are left over stand alone."""
    if not scanned:
        return each("decoder/layers", layers)
    whole = len(layers) // 6 * 6
    found = each("decoder/layers_remainder/layers", layers[whole:])
    for b in range(6):
        found.update(stack(f"decoder/layers/layers_{b}/", layers[b:whole:6]))
    return found


def in_twos(layers, scanned):
    if not scanned:
        return each("decoder/layers", layers)
    return {**stack("decoder/layers/layers_0/", layers[::2]), **stack("decoder/layers/layers_1/", layers[1::2])}


def dense_and_moe(layers, scanned):
    dense = sum("mlp/wo/kernel" in layer for layer in layers)
    group = (lambda name, part: stack(name + "/", part)) if scanned else each
    return {**group("decoder/dense_layers", layers[:dense]), **group("decoder/moe_layers", layers[dense:])}


def gemma_embedding(array, factor, padded=True):
    array = multiply(array, factor)
    return pad_rows(array, (len(array) // 128 + 1) * 128) if padded else array


FAMILIES = {  # the function of a layer, and how layers are grouped
    "llama": (llama_layer, plain),
    "llama_tied": (llama_layer, plain),
    "llama_8": (llama_layer, plain),
    "mistral": (llama_layer, plain),
    "mixtral": (mixtral_layer, plain),
    "qwen2": (qwen_layer, plain),
    "qwen3": (qwen_layer, plain),
    "qwen3_moe": (qwen_layer, plain),
    "gemma": (gemma_layer, plain),
    "gemma2": (gemma2_layer, in_pairs),
    "gemma3": (gemma3_layer, in_sixes),
    "deepseek_v2": (deepseek_layer, dense_and_moe),
    "deepseek_v3": (deepseek_layer, dense_and_moe),
    "gpt_oss": (gpt_oss_layer, in_twos),
}


def tree(family, hf, config, scanned=True, prefix="model.", **options):
    """The parameters of MaxText, keys below `params/params/`."""
    layer, group = FAMILIES[family]
    layers = [layer(hf, f"{prefix}layers.{i}.", config, **options) for i in range(config.num_hidden_layers)]
    embedding, norm = hf[prefix + "embed_tokens.weight"], hf[prefix + "norm.weight"]
    if family.startswith("gemma"):
        factor = as_bfloat16(config.hidden_size**0.5) if family == "gemma3" else float(np.float32(config.hidden_size**0.5))
        embedding, norm = gemma_embedding(embedding, factor, family != "gemma3"), add(norm, 1)
    found = {"token_embedder/embedding": embedding, "decoder/decoder_norm/scale": norm, **group(layers, scanned)}
    if "lm_head.weight" in hf:
        found["decoder/logits_dense/kernel"] = hf["lm_head.weight"].T
    return found


def gemma3_vision(hf, heads, layers):
    """The vision encoder of Gemma 3, keys below `vision_encoder/`. It is never scanned."""
    tower, at = "vision_tower.", "Gemma3VisionEncoderLayer_0/"
    found = {at + "embedding/kernel": hf[tower + "embeddings.patch_embedding.weight"].transpose(2, 3, 1, 0),
             at + "embedding/bias": hf[tower + "embeddings.patch_embedding.bias"],
             at + "pos_embedding": hf[tower + "embeddings.position_embedding.weight"][None],
             at + "Transformer/encoder_norm/scale": hf[tower + "post_layernorm.weight"],
             at + "Transformer/encoder_norm/bias": hf[tower + "post_layernorm.bias"],
             "VisionEmbedder_0/mm_input_projection/w": hf["multi_modal_projector.mm_input_projection_weight"],
             "VisionEmbedder_0/mm_soft_embedding_norm/scale": add(hf["multi_modal_projector.mm_soft_emb_norm.weight"], 1)}
    for i in range(layers):
        theirs, ours = f"{tower}encoder.layers.{i}.", f"{at}Transformer/encoderblock_{i}/"
        for n in (0, 1):
            found[f"{ours}LayerNorm_{n}/scale"] = hf[f"{theirs}layer_norm{n + 1}.weight"]
            found[f"{ours}LayerNorm_{n}/bias"] = hf[f"{theirs}layer_norm{n + 1}.bias"]
            found[f"{ours}MlpBlockViT_0/Dense_{n}/kernel"] = hf[f"{theirs}mlp.fc{n + 1}.weight"].T
            found[f"{ours}MlpBlockViT_0/Dense_{n}/bias"] = hf[f"{theirs}mlp.fc{n + 1}.bias"]
        block = ours + "MultiHeadDotProductAttention_0/"
        for name in ("query", "key", "value"):
            found[f"{block}{name}/kernel"] = heads_of_rows(hf[f"{theirs}self_attn.{name[0]}_proj.weight"], heads)
            found[f"{block}{name}/bias"] = hf[f"{theirs}self_attn.{name[0]}_proj.bias"].reshape(heads, -1)
        found[block + "out/kernel"] = heads_of_columns(hf[theirs + "self_attn.out_proj.weight"], heads)
        found[block + "out/bias"] = hf[theirs + "self_attn.out_proj.bias"]
    return found


def linen(found):
    """The whole checkpoint of a Linen model, as MaxText saves it without an optimizer."""
    return {"step": np.int32(0), **{"params/params/" + name: array for name, array in found.items()}}


def nnx(found, base=False):
    """The tree of an NNX model: every leaf below `value`."""
    return {("base/" if base else "") + name + "/value": array for name, array in found.items()}
