//! How long freed memory stays with the process: a setting of the allocator mimalloc, which has no safe interface.

use std::ffi::{c_int, c_long};

// Links the library that the declarations below are of.
use mimalloc as _;

/// `mi_option_purge_delay` in `mimalloc.h`: milliseconds after which freed memory goes back to the operating system.
const PURGE_DELAY: c_int = 15;

unsafe extern "C" {
    fn mi_option_set_default(option: c_int, value: c_long);
}

/// Keeps freed memory for ten seconds, where mimalloc is the allocator. A step of training frees buffers that the next
/// one, seconds later, allocates again; given back in between, they cost a page fault for every 4 KiB.
/// `MIMALLOC_PURGE_DELAY` in the environment goes before this.
pub fn keep_freed_memory() {
    // SAFETY: sets one entry of mimalloc's table of options; the index is checked there. Allocating threads read the
    // entry without a lock, but it is one aligned word: they see the old number or the new one.
    unsafe { mi_option_set_default(PURGE_DELAY, 10_000) };
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" {
        fn mi_option_get(option: c_int) -> c_long;
    }

    #[test]
    fn the_option_is_the_delay() {
        // SAFETY: reads one number of mimalloc's table of options.
        let delay = || unsafe { mi_option_get(PURGE_DELAY) };
        if std::env::var_os("MIMALLOC_PURGE_DELAY").is_none() {
            // mimalloc 3's own; another number here means that options have moved.
            assert_eq!(delay(), 1000);
            keep_freed_memory();
            assert_eq!(delay(), 10_000);
        }
    }
}
