"""Serves a model file over the OpenAI protocol until the standard input closes.

Run as ``python serve_model.py FILE WINDOW PORT``; port 0 is a free one. Prints the address once the model is loaded.
"""

from __future__ import annotations

import sys

import xllamacpp


def main(file: str, window: str, port: str) -> None:
    parameters = xllamacpp.CommonParams()
    parameters.model.path = file
    parameters.n_ctx = int(window)
    parameters.n_parallel = 1
    parameters.port = int(port)
    parameters.use_jinja = True
    # Threads wait for each other busily, which takes ages where other programs want the cores too.
    for threads in (parameters.cpuparams, parameters.cpuparams_batch):
        threads.n_threads = 1
    parameters.sampling.temp = 0.0
    parameters.verbosity = 0
    server = xllamacpp.Server(parameters)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
