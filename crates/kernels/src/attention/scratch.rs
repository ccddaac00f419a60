//! Working memory of a thread, kept between calls and aligned to cache lines.
//!
//! A kernel describes its buffers once, as a struct whose fields are carved one after another, each with its size
//! beside its name. The description runs twice: first to measure, then to hand out memory.

use std::cell::RefCell;

/// Values of f32 in a cache line.
const VALUES: usize = 16;

#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct CacheLine([f32; VALUES]);

thread_local! {
    static LINES: RefCell<Vec<CacheLine>> = const { RefCell::new(Vec::new()) };
}

/// Hands out buffers of a thread's memory, none of which overlap.
pub(super) struct Carver {
    base: *mut CacheLine,
    taken: usize,
}

impl Carver {
    /// Room for `count` f32.
    pub(super) fn values(&mut self, count: usize) -> *mut f32 {
        let buffer = self.base.wrapping_add(self.taken);
        self.taken += count.div_ceil(VALUES);
        buffer.cast()
    }

    /// Room for `count` numbers split into two bf16, which take as many bytes as an f32; counted in bytes.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn split(&mut self, count: usize) -> *mut u8 {
        self.values(count).cast()
    }

    /// Room for `count` bf16, an even number; counted in bytes.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn halves(&mut self, count: usize) -> *mut u8 {
        self.values(count / 2).cast()
    }
}

/// Calls `f` with the buffers that `carve` takes, whose contents are arbitrary.
///
/// `f` must not start work on other threads: waiting for it could run another task here.
pub(super) fn with<B, R>(carve: impl Fn(&mut Carver) -> B, f: impl FnOnce(B) -> R) -> R {
    LINES.with_borrow_mut(|lines| {
        let mut measure = Carver { base: std::ptr::null_mut(), taken: 0 };
        carve(&mut measure);
        if lines.len() < measure.taken {
            lines.resize(measure.taken, CacheLine([0.0; VALUES]));
        }
        f(carve(&mut Carver { base: lines.as_mut_ptr(), taken: 0 }))
    })
}
