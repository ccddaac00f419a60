//! Operations on each row, or each value, of a matrix of f32: norms, rotary positions, activations, their gradients,
//! dropout, statistics of logits.
//!
//! The result of a row depends on that row alone, to the bit, whatever the number of rows and threads. The gradient of a
//! norm's weight is a sum over rows, in their order.
//!
//! ```
//! use gradus_kernels::rows::rms_norm;
//!
//! let mut out = [0.0; 4];
//! rms_norm(&[3.0, 4.0, 0.0, 0.0], &[1.0, 1.0, 2.0, 2.0], 0.0, &mut out);
//! assert!((out[0] - 1.2).abs() < 1e-6 && (out[1] - 1.6).abs() < 1e-6);
//! ```

mod activation;
mod activation_backward;
mod dropout;
mod logits;
mod norm;
mod norm_backward;
mod rope;

pub use activation::{gelu, silu_mul, silu_mul_in_place};
#[cfg(target_arch = "x86_64")]
pub(crate) use activation::{gelu_values, silu_values};
pub use activation_backward::silu_mul_backward;
pub use dropout::dropout;
pub use logits::{argmax, log_sum_exp, shares};
pub use norm::{add, add_bias, layer_norm, rms_norm};
#[cfg(target_arch = "x86_64")]
pub(crate) use norm::{add_values, rms_rows};
pub use norm_backward::{rms_norm_backward, rms_norm_weight_gradient};
pub use rope::{rope_backward_in_place, rope_in_place};

use crate::crew::{has_crew, share_awake};
use rayon::prelude::*;
use std::sync::Mutex;

/// Values below which waking other threads costs more than it gains.
const WORTH_SHARING: usize = 1 << 16;

/// The same for threads that are [awake](crate::awake).
const WORTH_SHARING_AWAKE: usize = 1 << 13;

/// How many rows of `width` a task takes; `None` if one thread does them all.
fn rows_per_task(values: usize, width: usize) -> Option<usize> {
    let threads = crate::threads::threads();
    let rows = values / width.max(1);
    let worth = if has_crew() { WORTH_SHARING_AWAKE } else { WORTH_SHARING };
    (values >= worth && threads > 1 && rows > 1).then(|| {
        // Four tasks a thread, so that one that started late does not hold up the rest.
        rows.div_ceil(4 * threads).max((worth / 8).div_ceil(width))
    })
}

/// Calls `f` with pieces of `out` of whole rows of `width`, and the index of the first value of each.
fn share(out: &mut [f32], width: usize, f: impl Fn(usize, &mut [f32]) + Sync) {
    match rows_per_task(out.len(), width) {
        None => f(0, out),
        Some(rows) => {
            let step = rows * width;
            if has_crew() {
                let pieces: Vec<Mutex<&mut [f32]>> = out.chunks_mut(step).map(Mutex::new).collect();
                share_awake(pieces.len(), |i| {
                    f(i * step, &mut pieces[i].lock().expect("each piece is locked once"));
                });
                return;
            }
            out.par_chunks_mut(step).enumerate().for_each(|(i, piece)| f(i * step, piece));
        }
    }
}

#[cfg(test)]
mod tests {
    //! What the tests of this family share.
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    pub(super) fn noise(count: usize) -> Vec<f32> {
        let mut rng = ChaCha8Rng::seed_from_u64(count as u64);
        (0..count).map(|_| rng.random_range(-3.0..3.0)).collect()
    }

    pub(super) fn assert_close(found: &[f32], expected: &[f64], tolerance: f64, what: &str) {
        assert_eq!(found.len(), expected.len());
        for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
            let error = (f64::from(*found) - expected).abs();
            assert!(
                error <= tolerance * (1.0 + expected.abs()),
                "{what}, value {i}: {found}, expected {expected}"
            );
        }
    }
}
