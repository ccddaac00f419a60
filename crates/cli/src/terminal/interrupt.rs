//! Ctrl-C and SIGTERM: temporary files are removed; resumable work finishes its current step first.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::terminal::printer;

static PATIENT: AtomicBool = AtomicBool::new(false);
static ASKED: AtomicBool = AtomicBool::new(false);

/// Installs the handler, once for the process. Finished outputs are whole and unfinished ones do not exist, so the same
/// command can simply be run again.
pub(crate) fn install() {
    let installed =
        ctrlc::set_handler(|| request("stopping after this step; press Ctrl-C again to stop now"));
    if let Err(error) = installed {
        printer::note(format!("no Ctrl-C handler, an interrupt may leave a temporary file: {error}"));
    }
}

/// Stops the program: at once, or where its work can be resumed, which `note` says.
pub(crate) fn request(note: &str) {
    if PATIENT.load(Ordering::SeqCst) && !ASKED.swap(true, Ordering::SeqCst) {
        printer::note(note);
        return;
    }
    gradus_durable::remove_unfinished();
    std::process::exit(130);
}

/// From now on the first Ctrl-C only requests a stop; see [`asked`].
pub(crate) fn be_patient() {
    PATIENT.store(true, Ordering::SeqCst);
}

/// Whether the work should stop where it can be resumed.
pub(crate) fn asked() -> bool {
    ASKED.load(Ordering::SeqCst)
}
