//! What generation has for itself: products of few rows, draws of tokens, graphs.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use candle_core::cuda_backend::cudarc::driver::{result::DriverError, sys};
use candle_core::{DType, Device, Tensor};
use gradus_kernels::Precision;

use super::super::graph::Graph;
use super::super::launch::address;
use super::super::sample::draw;
use super::super::vector::vector_product_into;
use super::super::{Graphs, open, silu_mul, vector_gated, vector_products};
use super::{close, close_within, each, gpu, random};
use crate::cache::{Cache, Slots};
use crate::decode::{Decode, Logits, NewRow, Plain};
use crate::decoder::Decoder;
use crate::models::ModelPath;
use crate::{Error, LoadOptions, Model};

/// A warp takes 1,024 numbers of a row at once.
const ROW_WIDTHS: [usize; 5] = [8, 1000, 1024, 1032, 3592];

#[test]
fn products_of_few_rows() {
    let Some(device) = gpu() else { return };
    let bf16 = |shape: &[usize]| random(shape, DType::BF16, &device);
    for (rows, width) in [1, 2, 4].into_iter().flat_map(|rows| ROW_WIDTHS.map(|width| (rows, width))) {
        let x = bf16(&[rows, width]);
        let [(a, a_bias), (b, _), (c, c_bias)] =
            [17, 40, 5].map(|outputs| (bf16(&[outputs, width]), bf16(&[outputs])));
        let weights = [(&a.gpu, Some(&a_bias.gpu)), (&b.gpu, None), (&c.gpu, Some(&c_bias.gpu))];
        let found = vector_products(&x.gpu, weights).unwrap().expect("rows and width are known");
        let wanted = |weight: &Tensor| x.cpu.matmul(&weight.t().unwrap()).unwrap();
        close("with a bias", &found[0], &wanted(&a.cpu).broadcast_add(&a_bias.cpu).unwrap(), DType::BF16);
        close("without one", &found[1], &wanted(&b.cpu), DType::BF16);
        close("the last", &found[2], &wanted(&c.cpu).broadcast_add(&c_bias.cpu).unwrap(), DType::BF16);
        let y = Tensor::zeros((rows, 40), DType::BF16, &device).unwrap();
        assert!(vector_product_into(&y, &x.gpu, &b.gpu).unwrap());
        close("in place", &y, &wanted(&b.cpu), DType::BF16);
    }
}

#[test]
fn gated_products_of_few_rows() {
    let Some(device) = gpu() else { return };
    let bf16 = |shape: &[usize]| random(shape, DType::BF16, &device);
    for (rows, width) in [1, 2, 4].into_iter().flat_map(|rows| ROW_WIDTHS.map(|width| (rows, width))) {
        let [x, gate, up] = [rows, 21, 21].map(|rows| bf16(&[rows, width]));
        let found = vector_gated(&x.gpu, &gate.gpu, &up.gpu).unwrap().expect("rows and width are known");
        let [gate, up] = [gate, up].map(|weight| x.cpu.matmul(&weight.cpu.t().unwrap()).unwrap());
        let sigmoid = (gate.neg().unwrap().exp().unwrap() + 1.0).unwrap().recip().unwrap();
        close_within("gated", &found, &(gate * sigmoid * up).unwrap(), 1.2e-2);
    }
}

#[test]
fn other_rows_are_left_to_cublas() {
    each(|device, dtype| {
        let weight = random(&[24, 64], dtype, device);
        for rows in [1, 3, 5] {
            let x = random(&[rows, 64], dtype, device);
            let is_known = vector_products(&x.gpu, [(&weight.gpu, None)]).unwrap().is_some();
            assert_eq!(is_known, rows == 1 && dtype == DType::BF16, "{rows} rows in {dtype:?}");
        }
        Ok(())
    });
}

/// The last temperature's inverse is no float, and the one before it still has one.
const TEMPERATURES: [f32; 6] = [0.0, 0.3, 1.0, 50.0, 4e-39, 1e-39];
/// From the lowest to the highest that a sampler makes.
const UNIFORMS: [f32; 5] = [0.0, 0.1, 0.5, 0.97, 1.0 - 1.0 / 16_777_216.0];

/// Tokens drawn from one row of logits by each temperature and random number, and their log-probabilities.
fn draws(logits: &Tensor, by: &[[f32; 2]]) -> Vec<(u32, f32)> {
    let device = logits.device();
    let logits = logits.broadcast_as((by.len(), logits.elem_count())).unwrap().contiguous().unwrap();
    let [temperatures, uniforms] =
        [0, 1].map(|at| Tensor::from_iter(by.iter().map(|pair| pair[at]), device).unwrap());
    let drawn = Tensor::zeros((by.len(), 2), DType::U32, device).unwrap();
    draw(&logits, address(&temperatures).unwrap(), address(&uniforms).unwrap(), &drawn).unwrap();
    let drawn: Vec<Vec<u32>> = drawn.to_vec2().unwrap();
    drawn.into_iter().map(|pair| (pair[0], f32::from_bits(pair[1]))).collect()
}

/// Whether the token is the one at which the sum of shares passes `uniform` of the whole, up to what sums in f32 lose.
#[track_caller]
fn check_draw(logits: &[f64], [temperature, uniform]: [f32; 2], (token, logprob): (u32, f32)) {
    let what = format!("token {token} of {} at temperature {temperature}, {uniform}", logits.len());
    let token = token as usize;
    let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let log_sum = logits.iter().map(|x| (x - most).exp()).sum::<f64>().ln();
    let wanted = logits[token] - most - log_sum;
    assert!((f64::from(logprob) - wanted).abs() < 1e-4, "{what}: log-probability {logprob}, not {wanted}");
    if temperature.recip().is_infinite() {
        assert_eq!(Some(token), logits.iter().position(|x| *x == most), "{what}: the first of the best");
        return;
    }
    let share = |x: &f64| ((x - most) / f64::from(temperature)).exp();
    let sum = |logits: &[f64]| logits.iter().map(share).sum::<f64>();
    let (whole, before, own) = (sum(logits), sum(&logits[..token]), share(&logits[token]));
    let (reached, slack) = (f64::from(uniform) * whole, 1e-5 * whole);
    assert!(own > 0.0, "{what}: it has no share");
    assert!(
        before - slack <= reached && reached <= before + own + slack,
        "{what}: {reached} is not between {before} and {}",
        before + own
    );
}

#[test]
fn draws_follow_the_shares() {
    let by: Vec<[f32; 2]> = TEMPERATURES
        .into_iter()
        .flat_map(|temperature| UNIFORMS.map(|uniform| [temperature, uniform]))
        .collect();
    each(|device, dtype| {
        for width in [1, 5, 33, 1000, 5001, 151_936] {
            let random = Tensor::randn(0f32, 2.0, width, &Device::Cpu)?;
            let mut logits: Vec<f32> = random.to_vec1()?;
            let (middle, last) = (width / 2, width - 1);
            // Ties of the best, and tokens that cannot be drawn at both ends of what is left.
            for (masked, tied) in [(0, false), (0, true), (width / 3, true)] {
                if tied {
                    (logits[middle], logits[last]) = (16.0, 16.0);
                }
                logits[..masked].fill(f32::NEG_INFINITY);
                let row = Tensor::new(&logits[..], device)?.to_dtype(dtype)?;
                let stored: Vec<f64> = row.to_device(&Device::Cpu)?.to_dtype(DType::F64)?.to_vec1()?;
                for (by, found) in by.iter().zip(draws(&row, &by)) {
                    check_draw(&stored, *by, found);
                }
            }
        }
        Ok(())
    });
}

#[test]
fn a_token_alone_is_always_drawn() {
    each(|device, dtype| {
        for (width, only) in [(1000, 0), (1000, 517), (5001, 5000)] {
            let mut logits = vec![f32::NEG_INFINITY; width];
            logits[only] = -3.0;
            let row = Tensor::new(&logits[..], device)?.to_dtype(dtype)?;
            let by = UNIFORMS.map(|uniform| [1.0, uniform]);
            assert_eq!(draws(&row, &by), [(only as u32, 0.0); UNIFORMS.len()]);
        }
        Ok(())
    });
}

#[test]
fn logits_that_are_no_distribution_give_no_token() {
    each(|device, dtype| {
        for (others, one) in [
            (0.0, f32::NAN),
            (0.0, f32::INFINITY),
            (f32::NEG_INFINITY, f32::NAN),
            (f32::NEG_INFINITY, f32::NEG_INFINITY),
        ] {
            for at in [0, 700, 1000] {
                let mut logits = vec![others; 1001];
                logits[at] = one;
                let row = Tensor::new(&logits[..], device)?.to_dtype(dtype)?;
                for (token, _) in draws(&row, &[[0.0, 0.0], [1.0, 0.5]]) {
                    assert_eq!(token, u32::MAX, "{one} among {others}");
                }
            }
        }
        Ok(())
    });
}

/// Sequences that grow by a token in every pass.
struct Growing<D> {
    decode: D,
    cache: Cache,
    spare: usize,
    sequences: Vec<Slots>,
}

impl<D: Decode> Growing<D> {
    fn new(decoder: &Decoder, decode: D, rows: usize) -> Self {
        let mut cache = decoder.cache().unwrap();
        let spare = cache.take(decode.spare_slots()).unwrap();
        let spare = spare.all().first().map_or(0, |slots| slots.start);
        Self { decode, cache, spare, sequences: (0..rows).map(|_| Slots::default()).collect() }
    }

    fn step(&mut self, decoder: &Decoder, at: usize) -> Vec<f32> {
        let new_row = |(row, slots): (usize, &mut Slots)| {
            let slot = self.cache.extend(slots, 1).unwrap()[0].start;
            let token = ((at * 31 + row * 7) % 280) as u32;
            NewRow { token, position: at as u32, slot, keys: slots.all(), draw: None }
        };
        let rows: Vec<NewRow> = self.sequences.iter_mut().enumerate().map(new_row).collect();
        match self.decode.step(decoder, &self.cache, self.spare, &rows).unwrap() {
            Logits::Rows(logits) => logits.to_vec(),
            Logits::Drawn(_) => unreachable!("no row may be drawn"),
        }
    }
}

/// Enough steps that every sequence needs a second block, for which the cache grows.
const STEPS: usize = 70;

#[test]
fn graphs_give_the_logits_of_plain_passes() {
    each(|_, dtype| {
        let (precision, bound) =
            if dtype == DType::F32 { (Precision::F32, 1e-4) } else { (Precision::Bf16, 3e-2) };
        // One with biases, one with windows.
        for name in ["qwen2", "mistral"] {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference/models").join(name);
            let options = LoadOptions {
                device: crate::Device::Cuda(0),
                precision: Some(precision),
                ..LoadOptions::default()
            };
            let model = Model::load(&ModelPath::Folder(folder), &options).unwrap();
            let decoder = model.decoder().unwrap();
            // Padded to 4, which the products of few rows know, and to 8.
            for rows in [3, 5] {
                let graphs = Graphs::new(decoder).unwrap().expect("such models have graphs");
                let mut graphs = Growing::new(decoder, graphs, rows);
                let mut plain = Growing::new(decoder, Plain::new(decoder.device()), rows);
                let mut generations = Vec::new();
                for at in 0..STEPS {
                    let [found, wanted] = [graphs.step(decoder, at), plain.step(decoder, at)]
                        .map(|logits| Tensor::new(logits, &Device::Cpu).unwrap());
                    close_within(&format!("{name}, {rows} rows, pass {at}"), &found, &wanted, bound);
                    assert_eq!(graphs.decode.len(), 1, "the pass was captured");
                    generations.push(graphs.cache.generation());
                }
                assert_ne!(generations.first(), generations.last(), "the cache has grown");
            }
        }
        Ok(())
    });
}

#[test]
fn a_stream_is_usable_after_a_capture_that_failed() {
    let Some(device) = gpu() else { return };
    let stream = device.as_cuda_device().unwrap().cuda_stream();
    let x = random(&[1000], DType::F32, &device);
    let wanted = (x.cpu.sqr().unwrap()
        * (x.cpu.neg().unwrap().exp().unwrap() + 1.0).unwrap().recip().unwrap())
    .unwrap();
    let works = |what: &str| {
        // One kernel, whose result is allocated and given back.
        let run = || silu_mul(&x.gpu, &x.gpu);
        close(what, &run().unwrap(), &wanted, DType::F32);
        let mut graph = Graph::capture(stream.clone(), || run().map(drop)).expect(what);
        graph.launch().unwrap();
        device.synchronize().unwrap();
    };
    works("at first");
    assert!(Graph::capture(stream.clone(), || Err(Error::request("refused"))).is_none());
    works("after an error");
    let recorded = Graph::capture(stream.clone(), || {
        let error = DriverError(sys::cudaError_enum::CUDA_ERROR_INVALID_VALUE);
        stream.context().record_err(Err::<(), _>(error));
        Ok(())
    });
    assert!(recorded.is_none());
    works("after an error that was recorded");
    let panicked = catch_unwind(AssertUnwindSafe(|| Graph::capture(stream.clone(), || panic!("on purpose"))));
    assert!(panicked.is_err());
    works("after a panic");
}

#[test]
fn two_models_at_once_have_a_stream_each() {
    let Some(first) = gpu() else { return };
    assert!(!open(0).unwrap().same_device(&first));
}
