# What the four pipelines share: settings, and how a stage is run. Not a program of its own.
#
#   OUT        folder of everything that is written; after a kill run the script again, and it goes on from there
#   SMALL=1    SmolLM2-135M and 40 synthetic problems on a CPU, in minutes: shows that the parts fit, teaches nothing
#   ENDPOINT   base URL of the server that samples and annotates; without it the local engine does, on DEVICE
#   SERVER_OPTIONS  with ENDPOINT, more options, such as --no-request-seed for vLLM on a CPU
#   MODEL      the model that samples and annotates; with ENDPOINT, its name on the server
#   BASE       the model that is trained
#   DEVICE     cpu or cuda
: "${GRADUS:=gradus}" "${SMALL:=}" "${ENDPOINT:=}"
if [ -n "$SMALL" ]; then
    : "${MODEL:=smollm2-135m}" "${BASE:=smollm2-135m}" "${DEVICE:=cpu}"
else
    : "${MODEL:=Qwen/Qwen2.5-7B-Instruct}" "${BASE:=Qwen/Qwen2.5-7B-Instruct}" "${DEVICE:=cuda}"
fi
# The jobs of a pipeline stay beside its files.
export GRADUS_JOBS="$OUT/jobs.sqlite"
mkdir -p "$OUT"

# Who samples and annotates.
if [ -n "$ENDPOINT" ]; then
    generator="--model $MODEL --endpoint $ENDPOINT ${SERVER_OPTIONS:-}"
else
    generator="--model $MODEL --device $DEVICE"
fi

# One stage is one command.
gradus() {
    printf '\n$ gradus %s\n' "$*"
    "$GRADUS" "$@"
}

# train OBJECTIVE RECIPE RUN DATA [SETTING…]: trains on the splits `train` and `eval` of the folder DATA; SMALL=1 for a few
# steps.
train() {
    objective=$1 recipe=$2 run=$3 data=$4
    shift 4
    if [ -n "$SMALL" ]; then
        set -- --set model.precision=bf16 --set lora.rank=8 --set batch.tokens=4096 --set batch.examples=4 \
            --set steps.total=4 --set steps.checkpoint_every=2 --set steps.eval_every=2 "$@"
    fi
    gradus train "$objective" "$recipe" -o "$run" --set "model.base=$BASE" --set "model.device=$DEVICE" \
        --set "data.train=[\"$data/train.jsonl\"]" --set "data.eval=[\"$data/eval.jsonl\"]" "$@"
}

# The small form's problems: two splits, `train` and `test`, each problem with a reference and labeled solutions.
small_problems() {
    gradus synth -n 40 --difficulty 1-1 --families shopping --solutions 2 --seed 1 -o "$OUT/world.jsonl"
    gradus data split "$OUT/world.jsonl" --splits train=0.5,test=0.5 -o "$OUT/problems"
}
