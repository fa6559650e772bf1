"""Encoders, image models and encoder-decoders: what their blocks keep, added up by hand.

Every sum per token was checked against the exact trace named beside it (``ORACLE.md``, fitted coefficients).
Letters: H hidden, I intermediate, n heads, s tokens a row.
"""

from dataclasses import replace

from tests.costmodel.block_jobs import AUTOCAST, a_block_job, kept_by_last_block, segment_of
from vramgate.costmodel.blocks.decoder import block
from vramgate.costmodel.blocks.encoder_decoder_ends import decoder_embedding, memory_of
from vramgate.costmodel.blocks.ends import last_hidden, output_weight
from vramgate.costmodel.blocks.loss import standard_loss
from vramgate.costmodel.job import AttentionImplementation
from vramgate.costmodel.products import linear
from vramgate.costmodel.segments import new_tape
from vramgate.costmodel.setting import setting_of
from vramgate.costmodel.tape import ACTIVATION, Tensor
from vramgate.costmodel.weights import held_weights

BERT_LARGE = {
    "model_type": "bert",
    "architectures": ["BertForMaskedLM"],
    "vocab_size": 30522,
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 2,
    "num_attention_heads": 16,
    "max_position_embeddings": 512,
}
VIT_LARGE = {
    "model_type": "vit",
    "architectures": ["ViTForImageClassification"],
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 2,
    "num_attention_heads": 16,
    "image_size": 224,
    "patch_size": 16,
    "num_labels": 1000,
}
T5_LARGE = {
    "model_type": "t5",
    "architectures": ["T5ForConditionalGeneration"],
    "vocab_size": 32128,
    "d_model": 1024,
    "d_kv": 64,
    "d_ff": 4096,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 16,
    "feed_forward_proj": "relu",
    "dropout_rate": 0.1,
    "tie_word_embeddings": True,
}
ROW = 512


def test_bert_keeps_both_masks_of_dropout_and_both_sums() -> None:
    # Query, key and value 6H; the kernel's output 2H and log-sum-exp 4n; a mask H and the sum 2H; the norm's output
    # 2H and two numbers; up 2I and its GELU 2I with I = 4H; a mask H and the sum 2H; the norm's output 2H, 8.
    per_token = (6 + 2 + 1 + 2 + 2 + 8 + 8 + 1 + 2 + 2) * 1024 + 4 * 16 + 8 + 8
    assert per_token == 34_896  # trace of BERT-large
    assert kept_by_last_block(a_block_job(BERT_LARGE, sequence_length=ROW)) == ROW * 34_896


def test_bert_in_python_adds_a_softmax_its_dropout_and_a_mask() -> None:
    # The kernel's log-sum-exp 4n goes; scores of n × s: softmax 2, the dropped-out copy 2, its mask 1.
    per_token = 34 * 1024 + 16 + 5 * 16 * ROW
    assert per_token == 75_792  # trace of BERT-large, eager
    job = a_block_job(BERT_LARGE, sequence_length=ROW, attention=AttentionImplementation.EAGER)
    assert kept_by_last_block(job) == ROW * 75_792


def test_the_masked_loss_reads_logits_in_their_own_format() -> None:
    job = a_block_job(BERT_LARGE, sequence_length=ROW)
    setting = setting_of(job)
    tape = new_tape(setting)
    logits = tape.new(ROW * 30522, 2, requires_grad=True)
    standard_loss(tape, setting, logits)
    # The log-softmax, 2 bytes a number of the vocabulary, is all that is left beside the loss itself.
    assert tape.live == 2 * ROW * 30522 + 4


def test_the_masked_head_projects_with_the_embedding_and_a_bias() -> None:
    job = a_block_job(BERT_LARGE, sequence_length=ROW)
    setting = setting_of(job)
    weights = held_weights(job.architecture.outside, job, in_block=False)
    tape = new_tape(setting)
    stream = tape.new(ROW * 1024, 2, requires_grad=True)
    hidden = last_hidden(tape, setting, weights, stream)
    logits = linear(tape, hidden, output_weight(weights))
    tape.drop(hidden)
    # The dense layer's input and output, the GELU's output, the norm's two numbers a row and its output: 2H four times.
    assert tape.by[ACTIVATION] == ROW * (4 * 2 * 1024 + 8)
    assert logits.elements == ROW * 30522
    assert output_weight(weights).has_bias


def test_an_image_model_counts_patches_and_a_class_token() -> None:
    # 197 tokens whatever sequence_length says: 14 × 14 patches and one. The stream 2H and the norm's output 2H twice,
    # query, key and value 6H, the kernel's output 2H, up 8H and its GELU 8H; 4n, and two times two numbers.
    per_token = (2 * 2 * 2 + 6 + 2 + 8 + 8) * 1024 + 4 * 16 + 8 + 8
    assert per_token == 32_848  # trace of ViT-L
    job = a_block_job(VIT_LARGE, sequence_length=4096, micro_batch_size=8)
    assert kept_by_last_block(job) == 8 * 197 * 32_848


def test_a_classifier_reads_one_token_a_row() -> None:
    job = a_block_job(VIT_LARGE, micro_batch_size=8)
    setting = setting_of(job)
    weights = held_weights(job.architecture.outside, job, in_block=False)
    tape = new_tape(setting)
    stream = tape.new(8 * 197 * 1024, 2, requires_grad=True)
    hidden = last_hidden(tape, setting, weights, stream)
    assert linear(tape, hidden, output_weight(weights)).elements == 8 * 1000


def test_t5_keeps_a_bias_per_layer_and_two_copies_for_its_norms() -> None:
    # A norm keeps the stream 2H, an fp32 copy 4H, the scaled 2H, the output 2H and one number. Query, key and value
    # 6H, the kernel's output 2H, 4n; the layer's bias 2ns; a mask H. ReLU 2I, its dropout 2I and mask I, a mask H.
    norms = 2 * (10 * 1024 + 4)
    attention = (6 + 2 + 1) * 1024 + 4 * 16 + 2 * 16 * ROW
    feed_forward = 5 * 4096 + 1024
    assert norms + attention + feed_forward == 67_656  # trace of T5-large's encoder
    job = a_block_job(T5_LARGE, sequence_length=ROW)
    assert kept_by_last_block(job, stack=0) == ROW * 67_656


def test_t5s_decoder_keeps_its_mask_and_a_second_attention() -> None:
    # One more norm, attention without a bias of its own, and the causal mask of one byte a key.
    encoder = 67_656
    cross = 10 * 1024 + 4 + (6 + 2 + 1) * 1024 + 4 * 16
    assert encoder + cross + ROW == 87_692  # trace of T5-large's decoder
    assert kept_by_last_block(a_block_job(T5_LARGE, sequence_length=ROW)) == ROW * 87_692


def test_t5_under_autocast_matches_its_trace() -> None:
    job = a_block_job(T5_LARGE, sequence_length=ROW, precision=AUTOCAST)
    assert kept_by_last_block(job, stack=0) == ROW * 71_752
    assert kept_by_last_block(job) == ROW * 95_884


def test_a_decoder_block_adds_to_the_gradient_of_its_memory() -> None:
    job = a_block_job(T5_LARGE, sequence_length=ROW)
    setting = replace(setting_of(job), sequence=ROW // 2, tokens=ROW // 2)
    shape = job.architecture.decoder.blocks[-1]
    weights = held_weights(shape.modules, job, in_block=True)
    tape = new_tape(setting)
    memory = Tensor(ROW * 1024, 2, ACTIVATION, requires_grad=True)
    stream = tape.new(ROW // 2 * 1024, 2, requires_grad=True)
    out = block(tape, setting, shape, weights, stream, memory)
    out.gradient = tape.new_gradient(out.size)
    tape.backward()
    assert memory.gradient is not None
    assert memory.gradient.size == memory.size


def test_the_ends_of_an_encoder_decoder_connect() -> None:
    job = a_block_job(T5_LARGE, sequence_length=ROW)
    setting = setting_of(job)
    weights = held_weights(job.architecture.outside, job, in_block=False)
    tape = new_tape(setting)
    stream = tape.new(ROW * 1024, 2, requires_grad=True)
    memory = memory_of(tape, setting, weights, stream)
    # Its norm as in a block, 10H + 4, of which the output is not kept: dropout keeps a mask H instead.
    assert tape.by[ACTIVATION] == ROW * (8 * 1024 + 4 + 1024)
    assert memory.elements == ROW * 1024
    assert decoder_embedding(tape, setting, weights).elements == ROW * 1024


def test_every_weight_of_both_stacks_leaves_a_gradient() -> None:
    job = a_block_job(T5_LARGE, sequence_length=ROW)
    for stack in job.architecture.stacks:
        for kind in stack.blocks:
            assert segment_of(job, kind, stack.hidden_size).gradients == 2 * kind.parameters
