"""What layers share that read a table which another layer of the model may own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from kdcode.errors import OptionError
from kdcode.nn.coded_embedding import CodedEmbedding
from kdcode.nn.coded_layer import CodedLayer


class TableReader(nn.Module):
    """A layer over a `CodedLayer`, its own or that of another layer of the model.

    A table of its own is a submodule like any other. One that belongs to another layer is tied: it is neither a
    submodule nor in the `state_dict`, so nothing of it is stored, counted or moved twice. Copies and pickles of a model
    keep the tie.

    Attributes:
        table: the coded table.
    """

    table: CodedLayer

    def __init__(self, table: CodedLayer, *, tied: bool) -> None:
        super().__init__()
        if tied:
            self.__dict__["table"] = table  # past nn.Module, which would make it a submodule
        else:
            self.table = table

    @property
    def is_tied(self) -> bool:
        """Whether the table belongs to another layer."""
        return "table" not in self._modules

    @property
    def config(self) -> dict[str, Any]:
        """JSON values that `from_config` builds a layer of the same shape from."""
        return {"table": None if self.is_tied else self.table.config}


def table_for(config: Mapping[str, Any], table: CodedLayer | None, device: torch.device | str | None) -> CodedLayer:
    """The table of a layer that is built from a configuration: the one to be tied to, or a new one of its own.

    Raises:
        OptionError: a tied layer without the other, or one with its own table with another.
    """
    own: Mapping[str, Any] | None = config.get("table")
    if table is not None and own is None:
        return table
    if table is None and own is not None:
        return CodedEmbedding.from_config(own, device=device)
    raise OptionError("table: a tied layer needs the embedding that it is tied to, and no other layer takes one")
