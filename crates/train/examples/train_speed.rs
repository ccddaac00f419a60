//! How fast LoRA training is: forward, backward and AdamW over random tokens, every one of them predicted.
//!
//! `train_speed MODEL [--device cuda] [--precision bf16] [--sequences 4] [--length 1024] [--steps 8] [--rank 32]
//! [--targets q_proj,v_proj] [--keep GIB]` prints one JSON line, like its peer `benches/peers/train.py`.

use std::time::Instant;

use gradus_engine::batch::{Batch, Forest};
use gradus_engine::{Device, LoadOptions, Model, Precision, models};
use gradus_train::losses::negative_log_likelihood;
use gradus_train::{AdamW, Gradients, LoraConfig, TrainableModel, TrainableOptions, Tuning, scatter, select};

/// Steps before the clock starts.
const WARM_UP: usize = 2;

fn option(name: &str, default: &str) -> String {
    let arguments: Vec<String> = std::env::args().collect();
    let at = arguments.iter().position(|argument| argument == name);
    at.and_then(|at| arguments.get(at + 1)).cloned().unwrap_or_else(|| default.to_owned())
}

fn number(name: &str, default: usize) -> usize {
    option(name, &default.to_string()).parse().unwrap_or_else(|_| panic!("{name} is not a number"))
}

#[allow(clippy::print_stdout, reason = "the program's only output")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let name = std::env::args().nth(1).ok_or("usage: train_speed MODEL [options]")?;
    let on_gpu = option("--device", "cpu") == "cuda";
    let precision = match option("--precision", if on_gpu { "bf16" } else { "bf16x3" }).as_str() {
        "f32" => Precision::F32,
        "bf16x3" => Precision::Bf16x3,
        _ => Precision::Bf16,
    };
    let (sequences, length, steps) =
        (number("--sequences", 4), number("--length", 1024), number("--steps", 8));
    let device = if on_gpu { Device::Cuda(0) } else { Device::Cpu };
    let load = LoadOptions { device, precision: Some(precision), dequantize: Some(true), adapter: None };
    let model = Model::load(&models::resolve(&name)?, &load)?;
    let vocabulary = model.decoder()?.config.vocabulary as u64;
    let targets = option("--targets", "q_proj,v_proj").split(',').map(str::to_owned).collect();
    let lora = LoraConfig {
        rank: number("--rank", 32),
        alpha: 64.0,
        dropout: 0.0,
        targets,
        ..LoraConfig::default()
    };
    let activation_bytes = number("--keep", if on_gpu { 16 } else { 4 }) << 30;
    let options = TrainableOptions {
        tuning: Tuning::Lora(lora),
        precision,
        quantized: false,
        activation_bytes,
        seed: 0,
    };
    let mut trainable = TrainableModel::new(model, options)?;
    let mut seconds = Vec::new();
    let mut loss = 0.0;
    for step in 0..steps + WARM_UP {
        let mut batch = Batch::default();
        let (mut rows, mut next) = (Vec::new(), Vec::new());
        for sequence in 0..sequences {
            let token = |at: usize| ((at * 7919 + sequence * 104_729 + step * 13) as u64 % vocabulary) as u32;
            let tokens: Vec<u32> = (0..length).map(token).collect();
            let start = batch.add(&Forest::sequence(tokens.clone()))[0];
            rows.extend(start..start + length - 1);
            next.extend(&tokens[1..]);
        }
        let began = Instant::now();
        let mut gradients = Gradients::new(&trainable.parameters);
        let tape = trainable.forward(&batch, Some(step as u64))?;
        let hidden = select(&tape.hidden, &rows)?;
        let logprobs = trainable.token_logprobs(&hidden, &next, true)?;
        let mean = negative_log_likelihood(&logprobs.values, &vec![1.0; next.len()]);
        loss = mean.value;
        let d_rows = trainable.token_logprobs_backward(&hidden, logprobs, &mean.gradient, &mut gradients)?;
        let d_hidden = scatter(&tape.hidden, &rows, &d_rows)?;
        trainable.backward(tape, &d_hidden, &mut gradients)?;
        // The norm is a number on the host, so everything before it has been computed.
        gradients.clip(1.0)?;
        trainable.update(&gradients, 1e-4, step + 1, &AdamW::default())?;
        trainable.device()?.synchronize()?;
        if step >= WARM_UP {
            seconds.push(began.elapsed().as_secs_f64());
        }
    }
    seconds.sort_by(f64::total_cmp);
    let speed = |seconds: f64| (sequences * length) as f64 / seconds;
    println!(
        "{{\"task\": \"train {sequences}x{length}\", \"value\": {:.1}, \"best\": {:.1}, \"unit\": \"tokens/s\", \"loss\": {loss:.4}}}",
        speed(seconds[seconds.len() / 2]),
        speed(seconds[0])
    );
    Ok(())
}
