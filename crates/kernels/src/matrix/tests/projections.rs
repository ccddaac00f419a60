//! Projections have the bits of their parts: products, biases, adapters, additions, gates and norms one after another.

use super::{levels_and_precisions, numbers};
use crate::cpu::Level;
use crate::{Activations, Matrix, Precision, Projection, alone, rows};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

const RANK: usize = 5;

struct Weights {
    weights: Matrix,
    bias: Vec<f32>,
    adapter: [Matrix; 2],
}

impl Weights {
    fn new(
        random: &mut ChaCha8Rng,
        (outputs, inputs): (usize, usize),
        (level, precision): (Level, Precision),
        rank_precision: Precision,
    ) -> Self {
        let mut matrix = |rows, columns, precision| {
            let values = numbers(random, rows * columns);
            Matrix::at_level(level, rows, columns, precision, &values, |value| value / 8.0)
        };
        let weights = matrix(outputs, inputs, precision);
        let adapter = [matrix(RANK, inputs, rank_precision), matrix(outputs, RANK, rank_precision)];
        Self { weights, bias: numbers(random, outputs), adapter }
    }

    fn projection(&self, is_full: bool) -> Projection<'_> {
        Projection {
            weights: &self.weights,
            bias: is_full.then(|| self.bias.clone()),
            adapter: is_full.then_some((&self.adapter[0], &self.adapter[1])),
        }
    }

    /// x · Wᵀ + (x · Aᵀ) · Bᵀ + bias, one after another.
    fn parts(&self, x: &[f32], is_full: bool) -> Vec<f32> {
        let mut y = product(&self.weights, x);
        if is_full {
            let low = product(&self.adapter[0], x);
            self.adapter[1].add_multiply(&low, &mut y);
            rows::add_bias(&mut y, &self.bias);
        }
        y
    }
}

fn product(matrix: &Matrix, x: &[f32]) -> Vec<f32> {
    let mut y = vec![f32::NAN; x.len() / matrix.columns() * matrix.rows()];
    matrix.multiply(x, &mut y);
    y
}

/// Few and many rows; rows in one piece and in several; edges that are no whole tiles.
#[test]
fn projections_have_the_bits_of_their_parts() {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let shapes = [(5, 40, 70), (33, 40, 70), (97, 100, 33), (64, 64, 96), (130, 70, 2100)];
    let all = shapes.into_iter().flat_map(|shape| levels_and_precisions().map(move |at| (shape, at)));
    for (((m, hidden, inner), at), rank_precision) in
        all.flat_map(|one| [one.1.1, Precision::Bf16x3].map(|precision| (one, precision)))
    {
        let [gate, up] = [(); 2].map(|()| Weights::new(&mut random, (inner, hidden), at, rank_precision));
        let down = Weights::new(&mut random, (hidden, inner), at, rank_precision);
        let (x, norm) = (numbers(&mut random, m * hidden), numbers(&mut random, hidden));
        for is_full in [false, true] {
            let mut normalized = vec![0.0; x.len()];
            rows::rms_norm(&x, &norm, 1e-5, &mut normalized);
            let mut gated = gate.parts(&normalized, is_full);
            rows::silu_mul_in_place(&mut gated, &up.parts(&normalized, is_full));
            let mut expected = x.clone();
            rows::add(&mut expected, &down.parts(&gated, is_full));

            let mut curved = up.parts(&x, is_full);
            rows::gelu(&mut curved);
            let mut expected_curved = x.clone();
            rows::add(&mut expected_curved, &down.parts(&curved, is_full));

            let [gate, up, down] = [&gate, &up, &down].map(|weights| weights.projection(is_full));
            let layer = || {
                let h = Activations::rms_norm(&x, &norm, 1e-5, &[&gate, &up]);
                let h = Projection::gated(&gate, &up, &h, &down);
                let mut y = x.clone();
                down.add_to(&h, &mut y);
                y
            };
            let curved = || {
                let h = up.gelu(&Activations::new(&x), &down);
                let mut y = x.clone();
                down.add_to(&h, &mut y);
                y
            };
            let named = format!(
                "{at:?}, adapter {rank_precision:?}, {m} rows of {hidden} and {inner}, bias and adapter: {is_full}"
            );
            assert_eq!(layer(), expected, "{named}");
            assert_eq!(alone(layer), expected, "{named}, alone");
            assert_eq!(curved(), expected_curved, "{named}, GELU");
            assert_eq!(alone(curved), expected_curved, "{named}, GELU, alone");
        }
    }
}
