"""Tiny models of transformers with random weights, one for each family that has a map."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers as hf

E, H, K, D, M, L, V, X = 72, 4, 2, 16, 96, 4, 160, 3
COMMON = dict(hidden_size=E, num_attention_heads=H, num_key_value_heads=K, head_dim=D, intermediate_size=M,
              num_hidden_layers=L, vocab_size=V, max_position_embeddings=64)
LATENT = dict(hidden_size=E, num_attention_heads=H, num_key_value_heads=H, intermediate_size=M, num_hidden_layers=L,
              vocab_size=V, max_position_embeddings=64, kv_lora_rank=24, qk_nope_head_dim=16, qk_rope_head_dim=8,
              v_head_dim=12, moe_intermediate_size=40, first_k_dense_replace=1, num_experts_per_tok=2)
VISION = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2, image_size=28, patch_size=14)
T5 = dict(d_model=E, num_heads=H, d_kv=D, d_ff=M, num_layers=3, vocab_size=V, relative_attention_num_buckets=8,
          relative_attention_max_distance=20, dropout_rate=0.0, pad_token_id=0, decoder_start_token_id=0, eos_token_id=1)


def llama(**changes):
    return hf.LlamaForCausalLM(hf.LlamaConfig(**{**COMMON, **changes}))


def qwen2():
    sizes = {name: value for name, value in COMMON.items() if name != "head_dim"}
    return hf.Qwen2ForCausalLM(hf.Qwen2Config(**sizes))


def t5_1_1():
    """T5 1.1 has a head of its own. transformers 5 ties the head of every T5, so this model unties it by hand."""
    model = hf.T5ForConditionalGeneration(hf.T5Config(**T5, feed_forward_proj="gated-gelu", tie_word_embeddings=False))
    model.lm_head.weight = torch.nn.Parameter(torch.empty_like(model.shared.weight))
    model.all_tied_weights_keys.pop("lm_head.weight", None)
    return model


def gemma3_multimodal():
    text = dict(COMMON, num_hidden_layers=8)
    vision = dict(VISION, vision_use_head=False)
    return hf.Gemma3ForConditionalGeneration(hf.Gemma3Config(text_config=text, vision_config=vision, mm_tokens_per_image=4))


def siglip():
    text = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=2, vocab_size=100,
                max_position_embeddings=16, projection_size=32, pad_token_id=1, bos_token_id=2, eos_token_id=3)
    return hf.SiglipModel(hf.SiglipConfig(text_config=text, vision_config=VISION))


MODELS = {
    "llama": llama,
    "llama_tied": lambda: llama(tie_word_embeddings=True),
    "llama_8": lambda: llama(head_dim=8),
    "mistral": lambda: hf.MistralForCausalLM(hf.MistralConfig(**COMMON)),
    "mixtral": lambda: hf.MixtralForCausalLM(hf.MixtralConfig(**COMMON, num_local_experts=X)),
    "qwen2": qwen2,
    "qwen3": lambda: hf.Qwen3ForCausalLM(hf.Qwen3Config(**COMMON)),
    "qwen3_moe": lambda: hf.Qwen3MoeForCausalLM(
        hf.Qwen3MoeConfig(**COMMON, num_experts=X, num_experts_per_tok=2, moe_intermediate_size=40)),
    "gemma": lambda: hf.GemmaForCausalLM(hf.GemmaConfig(**COMMON)),
    "gemma_mha": lambda: hf.GemmaForCausalLM(hf.GemmaConfig(**{**COMMON, "num_key_value_heads": H})),
    "gemma2": lambda: hf.Gemma2ForCausalLM(hf.Gemma2Config(**COMMON, query_pre_attn_scalar=64, sliding_window=4)),
    "gemma3": lambda: hf.Gemma3ForCausalLM(hf.Gemma3TextConfig(**{**COMMON, "num_hidden_layers": 14}, sliding_window=4)),
    "gemma3_multimodal": gemma3_multimodal,
    "deepseek_v2": lambda: hf.DeepseekV2ForCausalLM(
        hf.DeepseekV2Config(**LATENT, q_lora_rank=None, n_routed_experts=X, n_shared_experts=2, topk_method="greedy")),
    "deepseek_v3": lambda: hf.DeepseekV3ForCausalLM(
        hf.DeepseekV3Config(**LATENT, q_lora_rank=20, n_routed_experts=4, n_shared_experts=1, n_group=1, topk_group=1)),
    "gpt_oss": lambda: hf.GptOssForCausalLM(
        hf.GptOssConfig(**COMMON, num_local_experts=X, num_experts_per_tok=2, sliding_window=4)),
    "t5": lambda: hf.T5ForConditionalGeneration(hf.T5Config(**T5)),
    "t5_1_1": t5_1_1,
    "umt5": lambda: hf.UMT5ForConditionalGeneration(hf.UMT5Config(**T5)),
    "siglip": siglip,
}


def randomise(model):
    """Norms away from 0 and 1 and every bias different from zero, so that no rule can be left out unseen."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            scaled = parameter.float() + 0.2 * noise if parameter.ndim == 1 else noise * parameter.shape[-1] ** -0.5
            parameter.copy_(scaled.to(parameter.dtype))
        for name, buffer in model.named_buffers():
            if name.endswith("e_score_correction_bias"):
                buffer.copy_(torch.randn(buffer.shape, generator=generator))


def save(family, dtype, folder, **options):
    """Saves the family's model as transformers does, and returns its class."""
    torch.manual_seed(0)
    model = MODELS[family]().to(getattr(torch, dtype)).eval()
    for name, buffer in model.named_buffers():
        if name.endswith("e_score_correction_bias"):
            buffer.data = buffer.data.float()  # float32 in every model: routing is sensitive
    randomise(model)
    model.save_pretrained(folder, **options)
    return type(model)


def load(kind, folder):
    """The model of a folder; nothing may be missing, surplus or of another shape."""
    model, info = kind.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    wrong = {name: found for name, found in info.items() if found}
    assert not wrong, wrong
    return model.eval()


def outputs(model):
    """The logits of fixed input, or the two embeddings of SigLIP, as one tensor."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        if isinstance(model, hf.SiglipModel):
            ids = torch.randint(4, 100, (2, 16), generator=generator)
            pixels = torch.randn((2, 3, 28, 28), generator=generator)
            found = model(input_ids=ids, pixel_values=pixels)
            return torch.cat([found.text_embeds.flatten(), found.image_embeds.flatten(), found.logits_per_text.flatten()])
        ids = torch.randint(2, V, (2, 12), generator=generator)
        if isinstance(model, hf.T5ForConditionalGeneration | hf.UMT5ForConditionalGeneration):
            return model(input_ids=ids, decoder_input_ids=ids.flip(0)).logits
        return model(input_ids=ids).logits
