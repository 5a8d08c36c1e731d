#!/usr/bin/env bash
# Every example on the two real sets, for docs/ab/: about 20 minutes on two quiet cores, at most 25.
#
#   examples/ab/real_sets.sh [DATA] [WORK] [OUT]     from the project's root
#
# DATA holds wordnet-definitions/ and novels-next-passage/ (default ../shared/data); WORK is for the
# cut sets and the studies (default runs/ab-real), OUT for the pages (docs/ab). The same command goes on where it was interrupted.
# Validation is cut to 1,000 random pairs: with all 4,000, half the time would go into evaluations.
# Two repeats run at a time, with a thread each; speeds are those under that load.
set -euo pipefail

data=${1:-../shared/data} work=${2:-runs/ab-real}
here=examples/ab out=${3:-docs/ab}
ttf=${TTF:-$(command -v ttf || echo .venv/bin/ttf)}
[ -d "$here" ] || { echo "Run this from the project's root." >&2; exit 2; }
mkdir -p "$out" "$work"

# --- data: 1,000 validation pairs, in both containers ---------------------------------------------

prepare() { # set, pairs file, other files
    local set=$1 pairs=$2 files=$work/$1/storage/data extra=() other container
    shift 2
    [ ! -e "$files/ready" ] || return 0
    mkdir -p "$files"
    for other in "$@"; do
        cp "$data/$set/$other.npz" "$files/"
        "$ttf" data convert --overwrite "$files/$other.npz" "$files/$other.zarr"
        [ "$other" != context ] || extra=(--context "$files/context.npz")
    done
    "$ttf" data subset "$data/$set/$pairs" "$files/pairs.npz" --val 1000 --seed 0 \
        --overwrite ${extra[@]+"${extra[@]}"}
    "$ttf" data convert --overwrite "$files/pairs.npz" "$files/pairs.zarr"
    for container in npz zarr; do # the example's own files, beside this data
        awk -v context="${#extra[@]}" '{print} context && /^bank = / {gsub("bank", "context"); print}' \
            "$here/storage/$container.toml" > "$work/$set/storage/$container.toml"
    done
    touch "$files/ready"
}

# --- studies --------------------------------------------------------------------------------------

study() { # name, title, repeats, budget; then files and options
    local name=$1 title=$2 repeats=$3 budget=$4 folder=$work/$1
    shift 4
    if [ ! -e "$folder/report.md" ]; then
        if [ -e "$folder/study.json" ]; then
            "$ttf" ab --resume "$folder" --parallel 2 --budget "$budget"
        else
            "$ttf" ab "$@" "${same[@]}" --parallel 2 --repeats "$repeats" \
                --budget "$budget" --out "$folder"
        fi
    fi
    # Paths of this machine are nobody's business.
    { echo "# $title"; echo; sed "s#$PWD/##g" "$folder/report.md"; } > "$out/$name.md"
    { echo "- [$title]($name.md): $(head -n 1 "$folder/report.md")"; } >> "$out/README.md.new"
}

all() { # set, its name in titles; uses the arrays files_of, same
    local set=$1 of=$2 graph=$work/$1/graph
    # The graph is built once and kept: half a minute that is nobody's speed.
    [ -e "$graph/summary.json" ] || { rm -rf "$graph" && "$ttf" train "$here/miners.toml" \
        "${files_of[@]}" "${same[@]}" --miner hnswlib --steps 1 --out "$graph"; }
    study "$set-isolation" "$of: the miner in the trainer's process or in its own" 10 100s \
        "$here/isolation.toml" --vary miner.isolation=none,process --steps 40 "${files_of[@]}"
    study "$set-miners" "$of: exact search, FAISS, hnswlib" 10 140s \
        "$here/miners.toml" --vary miner.name=exact,faiss,hnswlib --steps 40 "${files_of[@]}"
    study "$set-accumulation" "$of: 1,024 samples a step in 1, 4, 16, 32 micro-batches" 11 210s \
        "$here"/accumulation/accumulate-{1,4,16,32}.toml --steps 12 --set evaluate.every=6 \
        "${files_of[@]}"
    study "$set-precision" "$of: fp32 against bf16" 10 100s \
        "$here/precision.toml" --vary device.precision=fp32,bf16 --steps 40 "${files_of[@]}"
    study "$set-shuffle" "$of: rows shuffled or as they lie" 10 100s \
        "$here/shuffle.toml" --vary train.shuffle=true,false --steps 40 "${files_of[@]}"
    study "$set-storage" "$of: NPZ against Zarr" 10 100s \
        "$work/$set/storage/npz.toml" "$work/$set/storage/zarr.toml" --steps 40
}

{
    echo "# The examples on real sets"
    echo
    echo "Made by \`examples/ab/real_sets.sh\`; what the words mean is in [ab.md](../ab.md)."
    echo
} > "$out/README.md.new"

prepare wordnet-definitions pairs.npz bank
files=$work/wordnet-definitions/storage/data
files_of=(--set "data.pairs=$files/pairs.npz" --set "data.bank=$files/bank.npz")
same=(--set device.threads=1 --set tower.query.name=mlp) # one vector a query: nothing to recur over
all wordnet-definitions "WordNet definitions"

prepare novels-next-passage windows.npz bank context
files=$work/novels-next-passage/storage/data
files_of=(--set "data.pairs=$files/pairs.npz" --set "data.bank=$files/bank.npz"
    --set "data.context=$files/context.npz")
same=(--set device.threads=1)
all novels-next-passage "Next passage of a novel"
study novels-next-passage-towers "Next passage of a novel: GRU against LSTM" 10 100s \
    "$here/towers.toml" --vary tower.query.name=gru,lstm --steps 40 "${files_of[@]}"

mv "$out/README.md.new" "$out/README.md"
