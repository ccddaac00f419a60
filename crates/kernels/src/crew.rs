//! Threads that stay awake between short pieces of work.
//!
//! Waking a sleeping thread takes tens of microseconds, about as long as a product takes when one token is generated. So
//! the pool's other threads are called once for a whole pass and then wait for pieces in a loop. A thread that is busy
//! elsewhere comes late or not at all, and the one that called does its pieces: nobody waits for a thread that has taken
//! none.

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::alone;

/// How often a waiting thread looks for work before it lets others on its core run, and before it goes.
const LOOKS: usize = 4_000;
const LAST_LOOK: usize = 10_000;

thread_local! {
    /// The crew that this thread has called.
    static OWN: Cell<Option<*const Crew>> = const { Cell::new(None) };
}

/// Runs `work` while the pool's other threads stay awake for their shares of it, which makes many short calls of this crate
/// faster. Results are the same. Only a thread of the pool has others to call.
///
/// ```
/// use gradus_kernels::{Matrix, Precision, awake};
/// let matrix = Matrix::from_f32(1, 2, &[1.0, 2.0], Precision::F32);
/// let mut y = [0.0];
/// awake(|| matrix.multiply(&[3.0, 4.0], &mut y));
/// assert_eq!(y, [11.0]);
/// ```
pub fn awake<R>(work: impl FnOnce() -> R) -> R {
    let Some(own) = rayon::current_thread_index() else { return work() };
    if crate::threads::threads() == 1 || OWN.get().is_some() {
        return work();
    }
    let crew = Arc::new(Crew::default());
    let members = Arc::clone(&crew);
    rayon::spawn_broadcast(move |context| {
        // A caller may meet its own copy, or another crew's, while it waits for something else.
        if context.index() != own && !has_crew() {
            alone(|| members.help());
        }
    });
    let called = Called(crew);
    OWN.set(Some(Arc::as_ptr(&called.0)));
    work()
}

/// A crew until its work is done.
struct Called(Arc<Crew>);

impl Drop for Called {
    fn drop(&mut self) {
        OWN.set(None);
        self.0.is_dismissed.store(true, Ordering::Release);
    }
}

/// Calls `piece` with each of `0..pieces` on the threads that this one has called, and returns whether it has called any.
pub(crate) fn share_awake(pieces: usize, piece: impl Fn(usize) + Sync) -> bool {
    let Some(crew) = OWN.take() else { return false };
    // SAFETY: it stays until `Called` is dropped, on this thread.
    let outcome = unsafe { &*crew }.work(pieces, &piece);
    OWN.set(Some(crew));
    if let Err(panic) = outcome {
        resume_unwind(panic);
    }
    true
}

/// Whether this thread has called others.
pub(crate) fn has_crew() -> bool {
    OWN.get().is_some()
}

type Outcome = Result<(), Box<dyn Any + Send>>;

/// A value with cache lines of its own: threads look at one number while others change the other.
#[derive(Default)]
#[repr(align(128))]
struct OwnLine<T>(T);

impl<T> std::ops::Deref for OwnLine<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

#[derive(Default)]
struct Crew {
    /// Pieces of the present work that nobody has taken, below the number of that work.
    open: OwnLine<AtomicU64>,
    /// Pieces of it that are done.
    done: OwnLine<AtomicUsize>,
    /// The present work: valid while one of its pieces is open or not done.
    present: UnsafeCell<Option<*const (dyn Fn(usize) + Sync)>>,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    is_dismissed: AtomicBool,
}

// SAFETY: `present` is written while no piece is open, and read by those who have taken one.
unsafe impl Sync for Crew {}
// SAFETY: as above; the pointer is to something that threads may share.
unsafe impl Send for Crew {}

impl Crew {
    /// Does all pieces, with the others.
    fn work(&self, pieces: usize, piece: &(dyn Fn(usize) + Sync)) -> Outcome {
        assert!(u32::try_from(pieces).is_ok(), "{pieces} pieces are too many");
        self.done.store(0, Ordering::Relaxed);
        // SAFETY: no piece is open, so nobody reads it. The lifetime may be forgotten since all pieces are done before
        // this returns.
        unsafe {
            *self.present.get() =
                Some(std::mem::transmute::<&(dyn Fn(usize) + Sync), *const (dyn Fn(usize) + Sync)>(piece));
        }
        let number = (self.open.load(Ordering::Relaxed) >> 32) + 1;
        self.open.store(number << 32 | pieces as u64, Ordering::Release);
        while alone(|| self.take_piece()) {}
        // A thread that has taken a piece may have lost its core to another process.
        let mut looks = 0;
        while self.done.load(Ordering::Acquire) < pieces {
            looks += 1;
            if looks < LOOKS { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
        let panic = self.panic.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        panic.map_or(Ok(()), Err)
    }

    /// Does one piece if one is open.
    fn take_piece(&self) -> bool {
        let mut open = self.open.load(Ordering::Relaxed);
        while open & u64::from(u32::MAX) > 0 {
            match self.open.compare_exchange_weak(open, open - 1, Ordering::Acquire, Ordering::Relaxed) {
                Err(now) => open = now,
                Ok(_) => {
                    let piece = (open & u64::from(u32::MAX)) as usize - 1;
                    // SAFETY: this piece is taken and not done, so the work is still there.
                    let work =
                        unsafe { &*(*self.present.get()).expect("work has been set before its pieces") };
                    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| work(piece))) {
                        *self.panic.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(panic);
                    }
                    self.done.fetch_add(1, Ordering::Release);
                    return true;
                }
            }
        }
        false
    }

    /// Does pieces until the crew is dismissed, or has had none for long.
    fn help(&self) {
        let mut looks = 0;
        while looks < LAST_LOOK && !self.is_dismissed.load(Ordering::Acquire) {
            looks += 1;
            if self.take_piece() {
                looks = 0;
            } else if looks < LOOKS {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    fn pool() -> rayon::ThreadPool {
        rayon::ThreadPoolBuilder::new().num_threads(4).build().unwrap()
    }

    #[test]
    fn every_piece_is_done_once_however_often_and_by_whomever() {
        pool().install(|| {
            assert!(!share_awake(1, |_| ()), "nobody was called");
            awake(|| {
                for round in 0..3_000 {
                    let pieces = round % 9;
                    let counts: Vec<AtomicU32> = (0..pieces).map(|_| AtomicU32::new(0)).collect();
                    assert!(share_awake(pieces, |piece| {
                        assert!(!has_crew(), "a piece has no pieces");
                        counts[piece].fetch_add(1, Ordering::Relaxed);
                    }));
                    assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1), "round {round}");
                    if round % 1_000 == 0 {
                        // Long enough for the others to go: the rest is done without them.
                        std::thread::sleep(std::time::Duration::from_millis(30));
                    }
                }
                awake(|| assert!(has_crew(), "the same crew"));
            });
            assert!(!has_crew());
        });
        assert!(!awake(has_crew), "a thread of no pool calls nobody");
    }

    #[test]
    fn several_crews_of_one_pool_and_its_other_work_do_not_wait_for_each_other() {
        let (pool, sum) = (pool(), AtomicU32::new(0));
        pool.scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|_| {
                    awake(|| {
                        for _ in 0..50 {
                            share_awake(7, |_| {
                                sum.fetch_add(1, Ordering::Relaxed);
                            });
                            rayon::join(std::thread::yield_now, std::thread::yield_now);
                        }
                    });
                });
            }
        });
        assert_eq!(sum.into_inner(), 6 * 50 * 7);
    }

    #[test]
    fn a_panic_in_a_piece_reaches_the_caller_and_ends_the_crew() {
        pool().install(|| {
            let failed =
                catch_unwind(|| awake(|| share_awake(9, |piece| assert_ne!(piece, 3, "on purpose"))));
            let words = failed.unwrap_err().downcast_ref::<String>().unwrap().clone();
            assert!(words.contains("on purpose"), "{words}");
            assert!(!has_crew());
        });
    }
}
