//! Lets the fuzzer report a stack overflow and save its input: the signal handler needs a stack of its own.

use std::mem::zeroed;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

const BYTES: usize = 1 << 20;

pub fn watch() {
    let stack = Box::leak(vec![0_u8; BYTES].into_boxed_slice());
    let stack = libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: BYTES };
    // SAFETY: the stack lives as long as the process, and the default action is kept; libFuzzer puts its handler in
    // place later and keeps the flag.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = libc::SIG_DFL;
        action.sa_flags = libc::SA_ONSTACK;
        assert_eq!(libc::sigaltstack(&stack, null_mut()), 0);
        assert_eq!(libc::sigaction(libc::SIGSEGV, &action, null_mut()), 0);
    }
}

/// [`watch`] for what uses libraries that panic at some damaged files, which our code catches and reports: the fuzzer must
/// not stop at those. It still stops at a panic that nobody caught. The first hundred are shown.
#[allow(dead_code)]
pub fn watch_uncaught() {
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    watch();
    std::panic::set_hook(Box::new(|panic| {
        if SEEN.fetch_add(1, Ordering::Relaxed) < 100 {
            eprintln!("{panic}");
        }
    }));
}
