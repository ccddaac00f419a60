# llama.cpp's server, from PyPI, for test scripts. Not a program of its own.
#
# llama_server FOLDER MODEL.gguf: starts it, sets `url`, and stops it when the script ends; fails where it cannot be
# installed. Its environment, log and address are in FOLDER.
llama_server() {
    mkdir -p "$1"
    python=$1/venv/bin/python
    [ -x "$python" ] || python3 -m venv "$1/venv"
    if ! "$python" -c 'import xllamacpp' 2> /dev/null; then
        "$1/venv/bin/pip" -q install 'xllamacpp==2026.10.11549' > "$1/pip.log" 2>&1 || {
            echo "skipped: llama.cpp's server cannot be installed here (see $1/pip.log)"
            return 1
        }
    fi
    rm -f "$1/address" "$1/stop" && mkfifo "$1/stop"
    "$python" scripts/llm_server.py "$2" 2 8192 < "$1/stop" > "$1/address" 2> "$1/server.log" &
    server=$!
    exec 3> "$1/stop"
    trap 'exec 3>&-; wait $server || true' EXIT
    while ! [ -s "$1/address" ]; do
        kill -0 $server || { tail -5 "$1/server.log"; exit 1; }
        sleep 0.2
    done
    url=$(cat "$1/address")
    echo "llama.cpp serves $2 at $url"
}
