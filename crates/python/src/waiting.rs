//! Waiting for a model: other threads of Python run meanwhile, Ctrl-C ends it, and `await` works.

use std::future::Future;
use std::process;
use std::sync::OnceLock;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyAny;
use tokio::runtime::{Builder, Runtime};
use tokio::task::AbortHandle;

use crate::error::raised;

/// How often Ctrl-C is looked for.
const PATIENCE: Duration = Duration::from_millis(50);

/// The threads that ask models, and the process that has them: a forked one has no threads.
static ASKING: OnceLock<(u32, Runtime)> = OnceLock::new();

/// Refuses a process that was forked from one with models: the threads that compute are not in it, and it would wait for
/// them forever.
pub(crate) fn refuse_forked() -> PyResult<()> {
    let asking = match ASKING.get() {
        Some(asking) => asking,
        None => {
            let runtime =
                Builder::new_multi_thread().worker_threads(1).enable_all().build().map_err(raised)?;
            ASKING.get_or_init(|| (process::id(), runtime))
        }
    };
    if asking.0 == process::id() {
        return Ok(());
    }
    Err(raised(
        "this process was forked from one that has models loaded: start it with \"spawn\" or \"forkserver\" \
         (multiprocessing.set_start_method), or load models only after the fork",
    ))
}

fn runtime() -> PyResult<&'static Runtime> {
    refuse_forked()?;
    ASKING.get().map(|(_, runtime)| runtime).ok_or_else(|| raised("there is no runtime"))
}

/// Waits for an answer. An interrupt drops the request, and with it the work.
pub(crate) fn wait<T: Send + 'static>(
    py: Python<'_>,
    answer: impl Future<Output = T> + Send + 'static,
) -> PyResult<T> {
    let (send, mut received) = sync_channel(1);
    let task = runtime()?.spawn(async move {
        let _ = send.send(answer.await);
    });
    loop {
        let received = &mut received;
        match py.detach(move || received.recv_timeout(PATIENCE)) {
            Ok(answer) => return Ok(answer),
            Err(RecvTimeoutError::Timeout) => py.check_signals().inspect_err(|_| task.abort())?,
            Err(RecvTimeoutError::Disconnected) => return Err(raised("the model stopped without an answer")),
        }
    }
}

/// An `asyncio.Future` of an answer, which `finish` turns into a Python value. Cancelling it drops the work.
pub(crate) fn promise<'py, T: Send + 'static>(
    py: Python<'py>,
    answer: impl Future<Output = T> + Send + 'static,
    finish: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
) -> PyResult<Bound<'py, PyAny>> {
    let events = py.import("asyncio")?.call_method0("get_running_loop")?;
    let future = events.call_method0("create_future")?;
    let (events, promised) = (events.unbind(), future.clone().unbind());
    let task = runtime()?.spawn(async move {
        let answer = answer.await;
        Python::attach(|py| {
            let (set, value) = match finish(py, answer) {
                Ok(value) => ("set_result", value),
                Err(error) => ("set_exception", error.into_value(py).into_any()),
            };
            let settle = Settle { set, value };
            // The loop may be closed: then nobody waits.
            let _ = settle
                .into_pyobject(py)
                .and_then(|settle| events.call_method1(py, "call_soon_threadsafe", (settle, promised)));
        });
    });
    future.call_method1("add_done_callback", (Cancel(task.abort_handle()),))?;
    Ok(future)
}

/// Called in the event loop's own thread: settles a future that nobody cancelled meanwhile.
#[pyclass(frozen)]
struct Settle {
    set: &'static str,
    value: Py<PyAny>,
}

#[pymethods]
impl Settle {
    fn __call__(&self, future: &Bound<'_, PyAny>) -> PyResult<()> {
        if future.call_method0("done")?.is_truthy()? {
            return Ok(());
        }
        future.call_method1(self.set, (self.value.clone_ref(future.py()),))?;
        Ok(())
    }
}

/// Called when a future is done: one that was cancelled stops its work.
#[pyclass(frozen)]
struct Cancel(AbortHandle);

#[pymethods]
impl Cancel {
    fn __call__(&self, _future: &Bound<'_, PyAny>) {
        self.0.abort();
    }
}
