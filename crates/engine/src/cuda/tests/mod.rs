//! Every operation against the same in f64 on the CPU, on random numbers, in f32 and in bf16.
//!
//! They need a GPU: `GRADUS_TEST_DEVICE=cuda cargo test --features cuda -p gradus-engine cuda::`. Without that they say that
//! they were skipped. `speed.rs` times them.

mod attention;
mod generation;
mod speed;

use candle_core::{D, DType, Device, Result as Candle, Tensor};

use super::*;
use crate::host_buffer::HostBuffer;

/// The GPU, when tests are asked to use one.
#[allow(clippy::print_stderr)]
fn gpu() -> Option<Device> {
    let wanted = std::env::var("GRADUS_TEST_DEVICE").is_ok_and(|device| device.starts_with("cuda"));
    if !wanted {
        eprintln!("skipped: GRADUS_TEST_DEVICE is not cuda");
        return None;
    }
    Some(open(0).unwrap())
}

/// Random numbers, rounded to `dtype`: the same on the GPU and, in f64, on the CPU.
struct Pair {
    gpu: Tensor,
    cpu: Tensor,
}

fn random(shape: &[usize], dtype: DType, device: &Device) -> Pair {
    let cpu = Tensor::randn(0f32, 1.0, shape, &Device::Cpu).unwrap().to_dtype(dtype).unwrap();
    Pair { gpu: cpu.to_device(device).unwrap(), cpu: cpu.to_dtype(DType::F64).unwrap() }
}

/// ‖found − wanted‖ / ‖wanted‖ stays under what the type loses.
#[track_caller]
fn close(what: &str, found: &Tensor, wanted: &Tensor, dtype: DType) {
    let bound = if dtype == DType::BF16 { 6e-3 } else { 2e-6 };
    close_within(what, found, wanted, bound);
}

#[track_caller]
fn close_within(what: &str, found: &Tensor, wanted: &Tensor, bound: f64) {
    assert_eq!(found.dims(), wanted.dims(), "{what}");
    let numbers = |x: &Tensor| -> Vec<f64> {
        x.to_device(&Device::Cpu)
            .unwrap()
            .to_dtype(DType::F64)
            .unwrap()
            .flatten_all()
            .unwrap()
            .to_vec1()
            .unwrap()
    };
    let (found, wanted) = (numbers(found), numbers(wanted));
    let norm = wanted.iter().map(|x| x * x).sum::<f64>().sqrt();
    let error = found.iter().zip(&wanted).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
    assert!(error <= bound * norm, "{what}: error {error:.3e} of {norm:.3e}, more than {bound:.0e}");
}

/// Runs a check in both types.
fn each(check: impl Fn(&Device, DType) -> Candle<()>) {
    let Some(device) = gpu() else { return };
    for dtype in [DType::F32, DType::BF16] {
        check(&device, dtype).unwrap();
    }
}

/// Widths that fit 16 bytes and that do not; short rows share a block, long ones have one each.
const WIDTHS: [usize; 5] = [8, 30, 128, 3584, 5001];

fn normed(x: &Tensor, weight: &Tensor, eps: f64) -> Candle<Tensor> {
    x.broadcast_div(&(x.sqr()?.mean_keepdim(D::Minus1)? + eps)?.sqrt()?)?.broadcast_mul(weight)
}

#[test]
fn rms_norms() {
    each(|device, dtype| {
        for width in WIDTHS {
            let shape = [7, 3, width];
            let (x, added) = (random(&shape, dtype, device), random(&shape, dtype, device));
            let weight = random(&[width], dtype, device);
            let wanted = normed(&x.cpu, &weight.cpu, 1e-2)?;
            close("norm", &rms_norm(&x.gpu, &weight.gpu, 1e-2).unwrap(), &wanted, dtype);
            let (sum, y) = add_rms_norm(&x.gpu, &added.gpu, &weight.gpu, 1e-2).unwrap();
            close("sum", &sum, &(&x.cpu + &added.cpu)?, dtype);
            let stored = sum.to_device(&Device::Cpu)?.to_dtype(DType::F64)?;
            close("norm of the sum", &y, &normed(&stored, &weight.cpu, 1e-2)?, dtype);
        }
        Ok(())
    });
}

#[test]
fn gradients_of_rms_norm() {
    each(|device, dtype| {
        for width in WIDTHS {
            let shape = [400, width];
            let [x, dy, past] = [(); 3].map(|()| random(&shape, dtype, device));
            let weight = random(&[width], dtype, device);
            let r = ((x.cpu.sqr()?.mean_keepdim(1)? + 1e-2)?.sqrt()?).recip()?;
            let scaled = dy.cpu.broadcast_mul(&weight.cpu)?;
            let along = ((&scaled * &x.cpu)?.mean_keepdim(1)? * r.sqr()?)?;
            let wanted = (scaled - x.cpu.broadcast_mul(&along)?)?.broadcast_mul(&r)?;
            let found = rms_norm_backward(&x.gpu, &weight.gpu, 1e-2, &dy.gpu, None).unwrap();
            close("dx", &found, &wanted, dtype);
            let found = rms_norm_backward(&x.gpu, &weight.gpu, 1e-2, &dy.gpu, Some(&past.gpu)).unwrap();
            close("dx and more", &found, &(wanted + past.cpu)?, dtype);
            let wanted = (x.cpu.broadcast_mul(&r)? * &dy.cpu)?.sum(0)?;
            let found = rms_norm_weight_gradient(&x.gpu, 1e-2, &dy.gpu).unwrap();
            assert_eq!(found.dtype(), DType::F32);
            close("dw", &found, &wanted, DType::F32);
        }
        Ok(())
    });
}

#[test]
fn swiglu_and_its_gradients() {
    each(|device, dtype| {
        for width in WIDTHS {
            let [gate, up, dy] = [(); 3].map(|()| random(&[5, width], dtype, device));
            let sigmoid = (gate.cpu.neg()?.exp()? + 1.0)?.recip()?;
            let silu = (&gate.cpu * &sigmoid)?;
            close("y", &silu_mul(&gate.gpu, &up.gpu).unwrap(), &(&silu * &up.cpu)?, dtype);
            let (dgate, dup) = silu_mul_backward(&gate.gpu, &up.gpu, &dy.gpu).unwrap();
            let slope = (&sigmoid + (&silu * (1.0 - &sigmoid)?)?)?;
            close("dgate", &dgate, &((&dy.cpu * &up.cpu)? * slope)?, dtype);
            close("dup", &dup, &(&dy.cpu * silu)?, dtype);
        }
        Ok(())
    });
}

#[test]
fn biases() {
    each(|device, dtype| {
        for width in WIDTHS {
            let (y, bias) = (random(&[9, width], dtype, device), random(&[width], dtype, device));
            add_bias(&y.gpu, &bias.gpu).unwrap();
            close("y", &y.gpu, &y.cpu.broadcast_add(&bias.cpu)?, dtype);
        }
        Ok(())
    });
}

#[test]
fn rotations_and_back() {
    each(|device, dtype| {
        for (heads, dim) in [(28, 128), (3, 64), (4, 20), (1, 6)] {
            let x = random(&[11, heads, dim], dtype, device);
            let [cos, sin] = [(); 2].map(|()| random(&[11, dim / 2], dtype, device));
            let (a, b) = (x.cpu.narrow(2, 0, dim / 2)?, x.cpu.narrow(2, dim / 2, dim / 2)?);
            let (c, s) = (cos.cpu.unsqueeze(1)?, sin.cpu.unsqueeze(1)?);
            let turned = |s: &Tensor| {
                let first = (a.broadcast_mul(&c)? - b.broadcast_mul(s)?)?;
                Tensor::cat(&[first, (b.broadcast_mul(&c)? + a.broadcast_mul(s)?)?], 2)
            };
            close("rope", &rope(&x.gpu, &cos.gpu, &sin.gpu).unwrap(), &turned(&s)?, dtype);
            close("back", &rope_backward(&x.gpu, &cos.gpu, &sin.gpu).unwrap(), &turned(&s.neg()?)?, dtype);
        }
        Ok(())
    });
}

#[test]
fn dropout_drops_what_the_cpu_drops() {
    let hash = |seed: u64, i: u64| {
        let first = pointwise::mix((seed as u32).wrapping_add(0x9e37_79b9));
        let second = pointwise::mix(first ^ (seed >> 32) as u32);
        pointwise::mix(pointwise::mix(i as u32 ^ first).wrapping_add(second).wrapping_add((i >> 32) as u32))
    };
    // The same bits are promised by the CPU's kernel.
    let bits = [(0, 0), (1, 0), (0x1234_5678_9abc_def0, 5), (7, (3 << 32) + 9)].map(|(s, i)| hash(s, i));
    assert_eq!(bits, [0x7964_6377, 0x312e_c857, 0x91a0_cd4c, 0x9544_ce2f]);
    each(|device, dtype| {
        for (count, rate, seed) in [(1003, 0.1f32, 2), (4096, 0.5, u64::MAX), (100_000, 0.05, 3 << 40)] {
            let x = random(&[count], dtype, device);
            let limit = (f64::from(rate) * 4_294_967_296.0).floor();
            let scale = 1.0 / (1.0 - f64::from(rate));
            let kept = (0..count as u64).map(|i| if f64::from(hash(seed, i)) >= limit { scale } else { 0.0 });
            let wanted = (Tensor::from_iter(kept, &Device::Cpu)? * &x.cpu)?;
            close("dropout", &dropout(&x.gpu, rate, seed).unwrap(), &wanted, dtype);
        }
        Ok(())
    });
}

#[test]
fn log_probabilities_and_their_gradients() {
    each(|device, dtype| {
        for width in [2, 33, 1000, 151_936] {
            let logits = random(&[6, width], dtype, device);
            let coefficients = random(&[6], DType::F32, device);
            let targets: Vec<u32> = (0..6).map(|row| (row * 7919) % width as u32).collect();
            let (on_gpu, on_cpu) = (Tensor::new(&*targets, device)?, Tensor::new(&*targets, &Device::Cpu)?);
            let all = logits.cpu.log_sum_exp(1)?;
            let own = logits.cpu.gather(&on_cpu.unsqueeze(1)?, 1)?.squeeze(1)?;
            let found = token_logprobs(&logits.gpu, &on_gpu).unwrap();
            assert_eq!(found.dtype(), DType::F32);
            close_within("log-probability", &found, &(own - &all)?, 1e-5);
            let mut hot = vec![0f64; 6 * width];
            targets.iter().enumerate().for_each(|(row, target)| hot[row * width + *target as usize] = 1.0);
            let hot = Tensor::from_vec(hot, (6, width), &Device::Cpu)?;
            let wanted = (hot - logits.cpu.broadcast_sub(&all.unsqueeze(1)?)?.exp()?)?;
            let wanted = wanted.broadcast_mul(&coefficients.cpu.unsqueeze(1)?)?;
            let found = token_logprobs_backward(logits.gpu.clone(), &on_gpu, &coefficients.gpu).unwrap();
            close_within("gradient", &found, &wanted, if dtype == DType::BF16 { 6e-3 } else { 1e-5 });
        }
        Ok(())
    });
}

#[test]
fn tokens_ruled_out_have_no_probability() {
    let Some(device) = gpu() else { return };
    let mut logits = [[f32::NEG_INFINITY; 16]; 2];
    (logits[0][3], logits[0][12]) = (1.0, 1.0);
    logits[1][15] = -3.0;
    let (logits, targets) =
        (Tensor::new(&logits, &device).unwrap(), Tensor::new(&[12u32, 15], &device).unwrap());
    let found: Vec<f32> = token_logprobs(&logits, &targets).unwrap().to_vec1().unwrap();
    assert!((found[0] + 2f32.ln()).abs() < 1e-6 && found[1].abs() < 1e-6, "{found:?}");
}

#[test]
fn a_step_of_adamw() {
    let Some(device) = gpu() else { return };
    let [value, moment1, gradient] = [(); 3].map(|()| random(&[1001], DType::F32, &device));
    let squares = random(&[1001], DType::F32, &device);
    let moment2 = Pair { gpu: squares.gpu.abs().unwrap(), cpu: squares.cpu.abs().unwrap() };
    let step = AdamW {
        rate: 0.1,
        beta1: 0.9,
        beta2: 0.99,
        eps: 1e-3,
        decay: 0.1,
        correction1: 0.19,
        correction2: 0.0199,
    };
    adamw(&value.gpu, &moment1.gpu, &moment2.gpu, &gradient.gpu, step).unwrap();
    let wanted = || -> Candle<_> {
        let mean = ((&moment1.cpu * 0.9)? + (&gradient.cpu * 0.1)?)?;
        let square = ((&moment2.cpu * 0.99)? + (gradient.cpu.sqr()? * 0.01)?)?;
        let down = ((&square / 0.0199)?.sqrt()? + 1e-3)?;
        let moved = (((&mean / 0.19)? / down)? * 0.1)?;
        Ok((((&value.cpu * 0.99)? - moved)?, mean, square))
    };
    let (wanted, mean, square) = wanted().unwrap();
    close_within("value", &value.gpu, &wanted, 1e-6);
    close_within("first moment", &moment1.gpu, &mean, 1e-6);
    close_within("second moment", &moment2.gpu, &square, 1e-6);
}

#[test]
fn sums_of_squares() {
    let Some(device) = gpu() else { return };
    for count in [1, 1000, 3_000_000] {
        let x = random(&[count], DType::F32, &device);
        let wanted = x.cpu.sqr().unwrap().sum_all().unwrap();
        close_within("sum", &sum_of_squares(&x.gpu).unwrap(), &wanted, 1e-6);
    }
}

#[test]
fn products_that_add_and_keep_f32() {
    each(|device, dtype| {
        let (a, b) = (random(&[40, 96], dtype, device), random(&[24, 96], dtype, device));
        for out in [dtype, DType::F32] {
            let sum = random(&[40, 24], out, device);
            add_product(&sum.gpu, &a.gpu, &b.gpu.t()?).unwrap();
            close("sum", &sum.gpu, &(sum.cpu + a.cpu.matmul(&b.cpu.t()?)?)?, out);
        }
        let (dy, x) = (random(&[300, 40], dtype, device), random(&[300, 24], dtype, device));
        let found = weight_gradient(&dy.gpu, &x.gpu).unwrap();
        assert_eq!(found.dtype(), DType::F32);
        close("gradient", &found, &dy.cpu.t()?.matmul(&x.cpu)?, DType::F32);
        Ok(())
    });
}

#[test]
fn numbers_arrive_in_pinned_memory() {
    let Some(device) = gpu() else { return };
    let mut pinned = Pinned::default();
    // It grows, and is used again for fewer.
    for count in [5usize, 70_000, 12] {
        let numbers: Vec<f32> = (0..count + 3).map(|i| i as f32).collect();
        let x = Tensor::new(&numbers[..], &device).unwrap().narrow(0, 3, count).unwrap();
        assert_eq!(pinned.read(&x).unwrap(), &numbers[3..]);
    }
}
