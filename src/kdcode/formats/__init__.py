from kdcode.table import VectorTable


def read(path):
    raise NotImplementedError


def write(table, path):
    raise NotImplementedError
