"""From a Hugging Face ``config.json`` to a ``ModelArchitecture`` with exact parameter counts.

Roles of modules, the same words in every family:

- attention: query, key, value, qkv, attention_output, sinks, relative_bias; latent (MLA):
  query_down, query_up, kv_down, kv_up; DeepSeek V3.2's indexer: index_query, index_key,
  index_weights; V4: output_down, compressor; DeBERTa: query_bias, value_bias, position_query,
  position_key; lightning attention: output_gate
- cross-attention: cross_query, cross_key, cross_value, cross_output
- feed-forward: gate, up, gate_up, down; shared_gate, shared_up, shared_gate_up, shared_down,
  shared_gate_scalar; RWKV's receptance; activation_parameter
- experts: router, router_bias, router_scale, expert_gate, expert_up, expert_gate_up, expert_down
  (each of these with ``copies``); latent_in and latent_out around them (Nemotron 3)
- norms, by what they read: input_norm feeds the token mixer; pre_feed_forward_norm feeds the
  feed-forward (Llama's ``post_attention_layernorm``); post_attention_norm and
  post_feed_forward_norm follow their half (Gemma 2, OLMo 2, BERT); query_norm, key_norm,
  q_latent_norm, kv_latent_norm, cross_norm, mixer_norm, embedding_norm, final_norm,
  encoder_final_norm, tower_final_norm, head_norm. A block that has one half only (Nemotron-H) or
  normalises elsewhere (ModernBERT's first) lacks the norm of the other.
- mixers that are no attention: mixer_in, mixer_out, mixer_conv, mixer_x, mixer_dt,
  mixer_parameter; several modules of a block may have the same role
- outside the blocks: embedding, position_embedding, token_type_embedding, class_token,
  mask_token, patch_embedding, projector, head, head_bias (of a tied head), head_dense, pooler
- side paths, named after themselves: altup, laurel, per_layer_*, hyper_connection, layer_scale,
  gate_parameter, logit_scale; remainder (of a bare parameter count)
"""

from collections.abc import Mapping

from vramgate.costmodel.architecture import ModelArchitecture
from vramgate.costmodel.families.config import Config, refuse, shown
from vramgate.costmodel.families.generic import architecture_from_parameters
from vramgate.costmodel.families.registry import build_model

__all__ = ["architecture_from_config", "architecture_from_parameters"]


def architecture_from_config(config: Mapping[str, object]) -> ModelArchitecture:
    """Return the model a ``config.json`` describes.

    A ``model_type`` of no known family is built from its shape; ``family`` is then "generic" and
    ``approximate`` says so.

    Raises:
        InvalidModelConfigError: a key the family needs is missing, malformed or contradicts
            another; ``fields`` point to it below ``/model/config``.
    """
    if not isinstance(config, Mapping):
        refuse("/model/config", f"{shown(config)} is not an object", code="type")
    return build_model(Config(config))
