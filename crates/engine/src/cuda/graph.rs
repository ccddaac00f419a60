//! CUDA graphs: what a stream was asked for while it was captured, started again by one call.
//!
//! cudarc has both, but its `end_capture` first looks for errors that were recorded earlier, as by tensors that were freed in the capture,
//! and then ends nothing: the stream stays captured, and every later use of it fails. Here a capture ends whatever happens in it.

use std::sync::Arc;

use candle_core::cuda_backend::WrapErr;
use candle_core::cuda_backend::cudarc::driver::{CudaStream, result, sys};

use super::device;
use crate::Result;

/// A graph that can be started. It is used by one thread at a time.
pub(super) struct Graph {
    recorded: Recorded,
    runnable: sys::CUgraphExec,
}

// SAFETY: graphs are not synchronized by themselves; starting one takes `&mut`, and dropping it the whole.
unsafe impl Send for Graph {}

impl Graph {
    /// Captures what `run` asks of the stream. None where the driver refuses, or where something else in this process came between.
    pub(super) fn capture(stream: Arc<CudaStream>, run: impl FnOnce() -> Result<()>) -> Option<Self> {
        let _alone = device::alone();
        let mut capture = Capture::begin(stream)?;
        let outcome = run();
        let recorded = capture.end();
        outcome.ok()?;
        recorded?.instantiate()
    }

    /// Asks the stream for the same once more.
    pub(super) fn launch(&mut self) -> Result<()> {
        let stream = &self.recorded.stream;
        stream.context().bind_to_thread().w()?;
        // SAFETY: graph and stream are alive; the caller keeps the memory that the graph reads and writes.
        unsafe { result::graph::launch(self.runnable, stream.cu_stream()) }.w()?;
        Ok(())
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: nobody else has it; the driver lets a pass that is under way end.
        let destroyed = unsafe { result::graph::exec_destroy(self.runnable) };
        self.recorded.stream.context().record_err(destroyed);
    }
}

/// A graph as it was captured.
struct Recorded {
    graph: sys::CUgraph,
    stream: Arc<CudaStream>,
}

impl Recorded {
    fn instantiate(self) -> Option<Graph> {
        // SAFETY: the graph is alive.
        let runnable = unsafe { result::graph::instantiate(self.graph, sys::CUgraphInstantiate_flags(0)) };
        let graph = Graph { runnable: runnable.ok()?, recorded: self };
        // SAFETY: graph and stream are alive.
        unsafe { result::graph::upload(graph.runnable, graph.recorded.stream.cu_stream()) }.ok()?;
        Some(graph)
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        // SAFETY: nobody else has it.
        self.stream.context().record_err(unsafe { result::graph::destroy(self.graph) });
    }
}

/// A stream that is being captured, until this is ended or dropped, as by a panic.
struct Capture(Option<Arc<CudaStream>>);

impl Capture {
    fn begin(stream: Arc<CudaStream>) -> Option<Self> {
        stream.begin_capture(sys::CUstreamCaptureMode_enum::CU_STREAM_CAPTURE_MODE_RELAXED).ok()?;
        Some(Self(Some(stream)))
    }

    /// What was captured, if all of it could be.
    fn end(&mut self) -> Option<Recorded> {
        let stream = self.0.take()?;
        // SAFETY: the stream is alive, and its context is this thread's since the capture began.
        let graph = unsafe { result::stream::end_capture(stream.cu_stream()) };
        // Memory that could not be freed in the capture is an error of the context, which would meet whoever uses it next.
        let freed = stream.context().check_err();
        let graph = graph.ok().filter(|graph| !graph.is_null())?;
        let recorded = Recorded { graph, stream };
        freed.ok()?;
        Some(recorded)
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        drop(self.end());
    }
}
