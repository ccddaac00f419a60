#!/bin/sh
# make test-serve: `gradus serve` with real models, asked by clients that know nothing of it: the `openai` package, and
# schemathesis, which makes up requests from the OpenAPI document (CASES for each path) and fails on a 5xx or a broken contract.
# Needs GRADUS, the program, and GRADUS_HOME with smollm2-135m and all-minilm-l6-v2. Installs both packages into OUT; without them
# it says so and passes.
set -eu
out=${OUT:-target/serve}
mkdir -p "$out"
[ -x "$out/venv/bin/python" ] || python3 -m venv "$out/venv"
"$out/venv/bin/python" -c 'import openai, schemathesis' 2> "$out/pip.log" || "$out/venv/bin/pip" -q install openai schemathesis >> "$out/pip.log" 2>&1 || {
  echo "skipped: openai and schemathesis cannot be installed here (see $out/pip.log)"
  exit 0
}
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
GRADUS_LOG=warn "${GRADUS:?names the program}" serve --model prm=gradus-prm --model smollm2-135m --model all-minilm-l6-v2 \
  --listen 127.0.0.1:"$port" --max-generated-tokens 64 --timeout 60 2> "$out/server.log" &
server=$!
trap 'kill "$server" 2> /dev/null || true' EXIT
until grep -q '^serving' "$out/server.log"; do kill -0 "$server" || { cat "$out/server.log"; exit 1; }; sleep 0.2; done

"$out/venv/bin/python" scripts/test_openai.py "http://127.0.0.1:$port"
# A job's events end with the job, and a made-up id has none.
"$out/venv/bin/schemathesis" run "http://127.0.0.1:$port/openapi.json" --max-examples "${CASES:-100}" --seed 1 \
  --checks not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance \
  --exclude-path-regex '/events$' --request-timeout 60 --no-color > "$out/schemathesis.txt" 2>&1 || { tail -60 "$out/schemathesis.txt"; exit 1; }
grep -E 'Test cases|cases generated|passed|No issues' "$out/schemathesis.txt" | tail -4
# TLS, with a certificate of its own.
if command -v openssl > "$out/openssl.log" && command -v curl >> "$out/openssl.log"; then
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost \
    -keyout "$out/key.pem" -out "$out/certificate.pem" 2>> "$out/openssl.log"
  tls_port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  GRADUS_LOG=warn "$GRADUS" serve --listen 127.0.0.1:"$tls_port" --tls-certificate "$out/certificate.pem" --tls-key "$out/key.pem" 2> "$out/tls.log" &
  tls=$!
  trap 'kill "$server" "$tls" 2> /dev/null || true' EXIT
  until grep -q '^serving .* https://' "$out/tls.log"; do kill -0 "$tls" || { cat "$out/tls.log"; exit 1; }; sleep 0.2; done
  curl -sSf --cacert "$out/certificate.pem" "https://localhost:$tls_port/v1/steps/split" -H 'Content-Type: application/json' -d '{"text": "a\n\nb"}' | grep -q '"steps":\["a","b"\]'
  if curl -s "https://localhost:$tls_port/healthz"; then echo "a certificate that nobody trusts was accepted"; exit 1; fi
  if curl -sf "http://localhost:$tls_port/healthz"; then echo "plain HTTP was answered"; exit 1; fi
  kill "$tls"
  wait "$tls" && echo "TLS: answered with its certificate, and not without"
fi
kill "$server"
wait "$server" && echo "the server ended with its running requests"
