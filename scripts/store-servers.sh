#!/usr/bin/env bash
# The object stores of the tests, on 127.0.0.1: store-servers.sh start|stop|status|env|run. See
# scripts/stores/servers.py. The servers come with the tests' Python packages (make venv).
folder=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=$folder/build/venv/bin/python
[ -x "$python" ] || { echo "store-servers.sh: no $python; run make venv" >&2; exit 1; }
exec "$python" "$folder/scripts/stores/servers.py" "$@"
