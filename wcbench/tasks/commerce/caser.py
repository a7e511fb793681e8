"""Caser, the model of learning to rank: convolutions over a user's last items (Tang and Wang, arXiv:1809.07426).

Every height from one item to all five has filters as wide as an embedding, whose highest outputs count; filters of one
column look at each number of the embeddings along the five. As the authors configure it, no activation follows the
convolutions. The output layer is a table, of which only the rows of the items to score are read.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

HISTORY = 5  # items in a sequence
VERTICAL, HORIZONTAL = 2, 16  # filters over one column, and over all columns for each height


class Caser(nn.Module):
    """Sequences (batch, 5), users (batch,) and items (batch, n) to scores (batch, n).

    Parameters
    ----------
    users, rows : of the tables of users and of items.
    dim : width of an embedding.
    """

    def __init__(self, users: int, rows: int, dim: int) -> None:
        super().__init__()
        self.users = nn.Embedding(users, dim)
        self.items = nn.Embedding(rows, dim)
        self.vertical = nn.Conv2d(1, VERTICAL, (HISTORY, 1))
        heights = range(1, HISTORY + 1)
        self.horizontal = nn.ModuleList(nn.Conv2d(1, HORIZONTAL, (height, dim)) for height in heights)
        self.dropout = nn.Dropout(0.5)
        self.hidden = nn.Linear(VERTICAL * dim + HORIZONTAL * HISTORY, dim)
        self.weights = nn.Embedding(rows, 2 * dim)  # of the output layer, looked up for the places to score
        self.biases = nn.Embedding(rows, 1)
        for table in (self.users, self.items, self.weights):
            nn.init.normal_(table.weight, std=1 / table.embedding_dim)
        nn.init.zeros_(self.biases.weight)

    def forward(self, sequences: Tensor, users: Tensor, items: Tensor) -> Tensor:
        image = self.items(sequences).unsqueeze(1)  # (batch, 1, 5, dim)
        features = [self.vertical(image).flatten(1)]  # (batch, 2 dim)
        for convolution in self.horizontal:
            lines = convolution(image).squeeze(3)  # (batch, 16, 6 - height)
            features.append(F.max_pool1d(lines, lines.shape[2]).squeeze(2))  # (batch, 16)
        hidden = torch.sigmoid(self.hidden(self.dropout(torch.cat(features, dim=1))))  # (batch, dim)
        state = torch.cat((hidden, self.users(users)), dim=1).unsqueeze(2)  # (batch, 2 dim, 1)
        return torch.baddbmm(self.biases(items), self.weights(items), state).squeeze(2)
