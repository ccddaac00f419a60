//! Ctrl-C and SIGTERM: leave no temporary file behind; long work that can be resumed finishes its step first.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::printer;

static PATIENT: AtomicBool = AtomicBool::new(false);
static ASKED: AtomicBool = AtomicBool::new(false);

/// Installs the handler, once for the process. Finished outputs are whole and unfinished ones do not exist, so the same
/// command can simply be run again.
pub(crate) fn install() {
    let installed = ctrlc::set_handler(|| {
        if PATIENT.load(Ordering::SeqCst) && !ASKED.swap(true, Ordering::SeqCst) {
            printer::note("stopping after this step (Ctrl-C again stops at once)");
            return;
        }
        gradus_durable::remove_unfinished();
        std::process::exit(130);
    });
    if let Err(error) = installed {
        printer::note(format!("Ctrl-C will leave a temporary file behind: {error}"));
    }
}

/// From now on the first Ctrl-C only asks; [`asked`] tells.
pub(crate) fn be_patient() {
    PATIENT.store(true, Ordering::SeqCst);
}

/// Whether the work should stop where it can be resumed.
pub(crate) fn asked() -> bool {
    ASKED.load(Ordering::SeqCst)
}
