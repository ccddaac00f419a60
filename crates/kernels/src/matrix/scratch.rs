//! Reusable working memory, aligned to cache lines.
//!
//! A product needs room for the converted input and for decoded weights. Each thread keeps the buffers it
//! has used, because fresh pages from the kernel would cost more than small products do.

use std::cell::RefCell;

/// Buffers a thread keeps; more than this only happens when products nest through work stealing.
const KEPT: usize = 4;
/// A larger buffer is given back to the allocator at once.
const LARGEST_KEPT_BYTES: usize = 64 << 20;

thread_local! {
    static FREE: RefCell<Vec<Vec<CacheLine>>> = const { RefCell::new(Vec::new()) };
}

/// One cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct CacheLine(pub(super) [u8; 64]);

/// Borrowed memory with arbitrary contents, given back on drop.
pub(crate) struct Scratch(Vec<CacheLine>);

impl Scratch {
    /// At least `bytes` bytes.
    pub(crate) fn with_bytes(bytes: usize) -> Scratch {
        let mut lines = FREE.with_borrow_mut(Vec::pop).unwrap_or_default();
        let wanted = bytes.div_ceil(64);
        if lines.len() < wanted {
            lines.resize(wanted, CacheLine([0; 64]));
        }
        Scratch(lines)
    }

    pub(crate) fn as_ptr(&self) -> *const u8 {
        self.0.as_ptr().cast()
    }

    /// The first `count` numbers: whatever lies there.
    pub(crate) fn numbers(&mut self, count: usize) -> &mut [f32] {
        assert!(count * 4 <= self.0.len() * 64);
        // SAFETY: the lines are initialized bytes, so many, and aligned for any number.
        unsafe { std::slice::from_raw_parts_mut(self.as_mut_ptr().cast(), count) }
    }

    pub(crate) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let lines = std::mem::take(&mut self.0);
        if lines.len() * 64 > LARGEST_KEPT_BYTES {
            return;
        }
        // While a thread ends its list may be gone already; then the buffer is simply freed.
        let _ = FREE.try_with(|free| {
            let mut free = free.borrow_mut();
            if free.len() < KEPT {
                free.push(lines);
            }
        });
    }
}
