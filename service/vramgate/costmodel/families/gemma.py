"""Gemma 1, 2 and 3: norms with weight + 1, scaled embedding; from 2 on norms around each half.

Source: the modeling files in transformers 5.24.
"""

from dataclasses import replace

from vramgate.costmodel.architecture import BlockLayout, NormKind
from vramgate.costmodel.families.llama import ATTENTION_BIAS, HEAD_NORM
from vramgate.costmodel.families.style import (
    SANDWICH_NORMS,
    AttentionStyle,
    DecoderStyle,
    FeedForwardStyle,
    Window,
)

GEMMA_ACTIVATION = ("hidden_activation",)


GEMMA = DecoderStyle(
    family="gemma",
    embedding_scaled=True,
    tied=True,
    norm=NormKind.RMS_PLUS_ONE,
    attention=AttentionStyle(
        bias=ATTENTION_BIAS,
        output_bias=ATTENTION_BIAS,
        kv_heads_default=16,
        head_dim_default=256,
    ),
    feed_forward=FeedForwardStyle(activation="gelu_pytorch_tanh", activation_keys=GEMMA_ACTIVATION),
)


GEMMA2 = replace(
    GEMMA,
    family="gemma2",
    layout=BlockLayout.SANDWICH,
    norms=SANDWICH_NORMS,
    logits_softcap_key="final_logit_softcapping",
    logits_softcap_default=True,
    attention=replace(
        GEMMA.attention,
        kv_heads_default=4,
        softcap_key="attn_logit_softcapping",
        softcap_default=True,
        window=Window(default=4096, period=2),
    ),
)


GEMMA3 = replace(
    GEMMA2,
    family="gemma3",
    logits_softcap_default=False,
    rotary_tables=2,
    attention=replace(
        GEMMA2.attention,
        norm=HEAD_NORM,
        softcap_default=False,
        window=Window(default=4096, period=6),
    ),
)
