//! How many threads a call may use.

use std::cell::Cell;

thread_local! {
    static ALONE: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` with everything of this crate on the calling thread, for callers that keep the other threads busy
/// themselves. Results are the same.
///
/// ```
/// use gradus_kernels::{Matrix, Precision, alone};
/// let matrix = Matrix::from_f32(1, 2, &[1.0, 2.0], Precision::F32);
/// let mut y = [0.0];
/// alone(|| matrix.multiply(&[3.0, 4.0], &mut y));
/// assert_eq!(y, [11.0]);
/// ```
pub fn alone<R>(work: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            ALONE.set(self.0);
        }
    }
    let _restore = Restore(ALONE.replace(true));
    work()
}

/// Threads that work may be shared among.
pub(crate) fn threads() -> usize {
    if ALONE.get() { 1 } else { rayon::current_num_threads() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alone_ends_with_the_work_even_if_it_fails() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        pool.install(|| {
            assert_eq!((threads(), alone(threads)), (3, 1));
            assert_eq!(alone(|| (alone(threads), threads())), (1, 1));
            let failed = std::panic::catch_unwind(|| alone(|| panic!("on purpose")));
            assert_eq!((failed.is_err(), threads()), (true, 3));
        });
    }
}
