//! What happens while files are fetched or sent, for those who show it.

/// A piece of news.
#[derive(Debug)]
pub enum Event<'a> {
    /// A piece of work begins, of so many bytes if that is known.
    Begin {
        /// Description of the work.
        what: &'a str,
        /// Size in bytes, where it is known.
        bytes: Option<u64>,
    },
    /// So many bytes of it are done.
    At(u64),
    /// A source has failed and the next one is tried.
    Failed {
        /// `pypi:package` or `hub:org/name`.
        source: &'a str,
        /// Why.
        reason: &'a str,
    },
}

/// The listener of the events.
pub struct Events<'a>(&'a mut dyn FnMut(Event<'_>));

impl<'a> Events<'a> {
    /// Tells `listener`.
    pub fn new(listener: &'a mut dyn FnMut(Event<'_>)) -> Self {
        Self(listener)
    }

    /// A piece of work begins.
    pub fn begin(&mut self, what: impl AsRef<str>, bytes: Option<u64>) {
        (self.0)(Event::Begin { what: what.as_ref(), bytes });
    }

    /// So many bytes of it are done.
    pub fn at(&mut self, bytes: u64) {
        (self.0)(Event::At(bytes));
    }

    /// A source has failed and the next one is tried.
    pub fn failed(&mut self, source: &str, reason: &str) {
        (self.0)(Event::Failed { source, reason });
    }
}
