//! Working memory of a thread, kept between calls and aligned to cache lines.

use std::cell::RefCell;

#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Line([f32; 16]);

thread_local! {
    static LINES: RefCell<Vec<Line>> = const { RefCell::new(Vec::new()) };
}

/// Calls `f` with buffers of so many f32 each, whose contents are arbitrary.
///
/// `f` must not start work on other threads: waiting for it could run another task here.
pub(super) fn with<const N: usize, R>(sizes: [usize; N], f: impl FnOnce([*mut f32; N]) -> R) -> R {
    LINES.with_borrow_mut(|lines| {
        let needed = sizes.iter().map(|size| size.div_ceil(16)).sum();
        if lines.len() < needed {
            lines.resize(needed, Line([0.0; 16]));
        }
        let mut rest = &mut lines[..];
        f(sizes.map(|size| {
            let (buffer, after) = std::mem::take(&mut rest).split_at_mut(size.div_ceil(16));
            rest = after;
            buffer.as_mut_ptr().cast()
        }))
    })
}
