"""MLPerf Training 5.1 and later, small language model: pre-training of Llama 3.1 8B on C4 (arXiv:2407.21783).

It replaced BERT in MLPerf (mlcommons/training, README of July 2026): to a log perplexity of 3.3 in sequences of 8,192
tokens. 32 layers of 4,096: attention of 32 heads over 8 of keys and values, gated feed-forward of 14,336, root mean
square normalization, rotary positions, 128,256 tokens, nothing tied. 8,030,261,248 parameters, or 128 GB with
gradients and AdamW's state: at this size operators are characterized on fake tensors.

What differs here, and why:

- A batch of one sequence: the share of one device. The global batch is the submitter's and spreads over many devices;
  their communication, sharding and recomputation of activations are no part of this task.
- The tokens are drawn by a Zipf-Mandelbrot law, with ids by frequency; C4 is not read. Documents are packed, so that
  every slot is full and no mask but the causal one is needed.
- AdamW with betas 0.9 and 0.95, weight decay 0.1, gradients clipped to norm 1 (all from memory of the reference); the
  warm-up and cosine decay of the rate are no part of a step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

from wcbench.errors import UnknownNameError, UsageError
from wcbench.tasks import data
from wcbench.tasks.base import Built, Config, Settings, Task

if TYPE_CHECKING:
    import numpy as np

ATTENTIONS = ("eager", "sdpa")
# Rotary positions as Llama 3.1 stretches them from 8,192 positions to 131,072.
ROPE = {
    "rope_type": "llama3",
    "rope_theta": 500_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
POSITIONS = 131_072


@dataclass(frozen=True)
class LlamaSettings(Settings):
    """Knobs of the Llama task.

    Attributes
    ----------
    seq : tokens in a sequence; each position predicts the next token.
    attention : "sdpa" (torch's fused operator) or "eager" (matrix products and a softmax).
    layers, hidden, feed_forward : depth, width, and width of the feed-forward part.
    heads, kv_heads : attention heads of the queries, and of keys and values.
    vocab : tokens in the vocabulary.
    lr, weight_decay : of AdamW.
    clip : largest norm of all gradients together.
    """

    batch_size: int = 1
    seq: int = 8192
    attention: str = "sdpa"
    layers: int = 32
    hidden: int = 4096
    feed_forward: int = 14_336
    heads: int = 32
    kv_heads: int = 8
    vocab: int = 128_256
    lr: float = 4e-4
    weight_decay: float = 0.1
    clip: float = 1.0

    def validate(self) -> None:
        super().validate()
        if self.attention not in ATTENTIONS:
            raise UnknownNameError("attention", self.attention, ATTENTIONS)
        if not 1 <= self.seq <= POSITIONS:
            raise UsageError(f"seq {self.seq} is refused: Llama 3.1 knows 1 to {POSITIONS} positions.")
        if min(self.layers, self.hidden, self.feed_forward, self.heads, self.kv_heads, self.vocab) < 1:
            raise UsageError("layers, hidden, feed_forward, heads, kv_heads and vocab start at 1.")
        if self.hidden % (2 * self.heads) or self.heads % self.kv_heads:
            raise UsageError(
                f"hidden {self.hidden} with {self.heads} heads and {self.kv_heads} kv_heads is refused: heads share the"
                " width evenly, each an even part, and kv_heads share the heads evenly."
            )
        if self.clip <= 0:
            raise UsageError(f"clip {self.clip} is refused: a norm to clip to is positive.")


class Llama(LlamaForCausalLM):  # type: ignore[misc]
    """Tokens (batch, seq) to logits (batch, seq, vocab), each position seeing itself and those before it.

    The library's own way there looks into the positions' values for documents that are packed into one sequence, and
    makes a mask where it cannot look; here there is none, and the fused attention is told that it is causal.
    """

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        hidden = self.model.embed_tokens(tokens)  # (batch, seq, width)
        positions = torch.arange(tokens.shape[1], device=tokens.device).unsqueeze(0)
        rotation = self.model.rotary_emb(hidden, position_ids=positions)
        for layer in self.model.layers:
            hidden = layer(hidden, attention_mask=mask, position_embeddings=rotation, position_ids=positions)
        logits: Tensor = self.lm_head(self.model.norm(hidden))
        return logits


class MlperfLlama(Task):
    """Llama 3.1 8B learning to predict the next token."""

    presets: ClassVar[Mapping[str, LlamaSettings]] = {
        "paper": LlamaSettings(),
        "small": LlamaSettings(seq=64, hidden=128, feed_forward=448, heads=4, kv_heads=1, vocab=2000),
        "tiny": LlamaSettings(seq=32, layers=2, hidden=64, feed_forward=224, heads=4, kv_heads=1, vocab=200),
    }
    length: ClassVar[str | None] = "seq"

    def build(self, config: Config) -> Built:
        settings: LlamaSettings = config.settings
        torch.manual_seed(config.seed)
        with torch.device(config.device):  # built in place: a module of fake tensors cannot be moved
            model = Llama(architecture(settings)).train()
        parameters = list(model.parameters())
        optimizer = torch.optim.AdamW(
            parameters, lr=settings.lr, betas=(0.9, 0.95), weight_decay=settings.weight_decay, foreach=True
        )
        law = frequency(settings)
        mask = causal(settings.seq).to(config.device) if settings.attention == "eager" else None

        def batch(index: int) -> Tensor:
            return draw(settings, law, config.seed, index).to(config.device)

        def step(batch: Tensor) -> Tensor:
            optimizer.zero_grad(set_to_none=True)
            with config.autocast():
                logits = model(batch[:, :-1], mask)  # (batch, seq, vocab)
            loss = F.cross_entropy(logits.flatten(0, 1).float(), batch[:, 1:].flatten())
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, settings.clip, foreach=True)
            optimizer.step()
            return loss.detach()

        def infer(batch: Tensor) -> Tensor:
            with config.autocast():
                logits: Tensor = model(batch[:, :-1], mask)
            return logits

        return Built(step, batch, {"model": model}, settings.batch_size, {"model": optimizer}, infer=infer)

    def lookups(self, config: Config, index: int, zipf: float | None = None) -> Mapping[str, np.ndarray[Any, Any]]:
        """The token embeddings' rows in the order of the tokens; the last token of a sequence is only predicted."""
        tokens = draw(config.settings, frequency(config.settings, zipf), config.seed, index)
        return {"model.model.embed_tokens.weight": tokens[:, :-1].flatten().numpy()}


def architecture(settings: LlamaSettings) -> LlamaConfig:
    """The library's configuration of the model that the settings describe."""
    return LlamaConfig(
        vocab_size=settings.vocab,
        hidden_size=settings.hidden,
        intermediate_size=settings.feed_forward,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        num_key_value_heads=settings.kv_heads,
        max_position_embeddings=POSITIONS,
        rms_norm_eps=1e-5,
        rope_parameters=dict(ROPE),
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=None,
        attn_implementation=settings.attention,
    )


def frequency(settings: LlamaSettings, zipf: float | None = None) -> Tensor:
    """Cumulative probabilities (vocab,) of the tokens, the most frequent first."""
    law = (data.WORD_EXPONENT, data.WORD_SHIFT) if zipf is None else (zipf, 0.0)
    return data.zipf_mandelbrot(settings.vocab, *law)


def draw(settings: LlamaSettings, law: Tensor, seed: int, index: int) -> Tensor:
    """Tokens (batch, seq + 1) of a step, on the CPU: one more than the model reads, which it predicts."""
    return data.draw(law, (settings.batch_size, settings.seq + 1), data.generator(seed, index))


def causal(seq: int) -> Tensor:
    """A mask ready to be added to the scores (1, 1, seq, seq): no position sees those after it."""
    return torch.full((seq, seq), torch.finfo(torch.float32).min).triu(1)[None, None]
