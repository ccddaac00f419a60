//! The thread that writes. It owns the connection; answers that wait share one transaction, and each caller is told after
//! its own answer is kept. Between transactions it removes what is beyond the limit.

use std::collections::HashSet;
use std::mem::take;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::Key;
use super::database;
use super::packed::{Packed, Packer};

/// Answers that share a transaction at most, and their bytes: others that write wait for it.
const TOGETHER: usize = 512;
const BYTES_TOGETHER: usize = 8 << 20;
/// Uses that are noted in a transaction of their own, where no answer is kept.
const USES_TOGETHER: usize = 512;

/// What the thread is asked for.
pub(super) enum Order {
    /// Keep an answer.
    Keep(Key, Vec<u8>, Asked),
    /// Note that an answer was used.
    NoteUse(Key),
}

/// Who is told how it ended.
type Asked = oneshot::Sender<Result<(), String>>;

/// The thread.
pub(super) struct Writer {
    /// None once it is being ended.
    orders: Option<Sender<Order>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // A panic there has been told.
            let _ = thread.join();
        }
    }
}

impl Writer {
    pub(super) fn start(connection: Connection, path: &Path) -> std::io::Result<Self> {
        let (orders, waiting) = channel();
        let state = State {
            connection,
            path: path.to_owned(),
            packer: Packer::default(),
            used: HashSet::new(),
            limit: 0,
            is_over: false,
            is_stuck: false,
        };
        let thread = std::thread::Builder::new().name("cache writer".to_owned());
        let thread = thread.spawn(move || state.serve(&waiting))?;
        Ok(Self { orders: Some(orders), thread: Some(thread) })
    }

    /// For those who send orders without waiting.
    pub(super) fn orders(&self) -> Option<&Sender<Order>> {
        self.orders.as_ref()
    }

    /// Keeps an answer. The error is why it is not kept.
    pub(super) async fn put(&self, key: Key, answer: Vec<u8>) -> Result<(), String> {
        let (asked, told) = oneshot::channel();
        let is_sent =
            self.orders.as_ref().is_some_and(|orders| orders.send(Order::Keep(key, answer, asked)).is_ok());
        let ended = || "its thread has ended".to_owned();
        if is_sent { told.await.map_err(|_| ended())? } else { Err(ended()) }
    }
}

struct State {
    connection: Connection,
    path: PathBuf,
    packer: Packer,
    /// Answers whose use is noted with the next transaction.
    used: HashSet<Key>,
    /// Bytes that the file may have, as last seen: another process may set it.
    limit: u64,
    /// Whether answers are being removed.
    is_over: bool,
    /// Whether removing has found damage, which is said once.
    is_stuck: bool,
}

impl State {
    fn serve(mut self, waiting: &Receiver<Order>) {
        self.look_at_size();
        loop {
            let first = match self.is_over {
                true => waiting.try_recv(),
                false => waiting.recv().map_err(|_| TryRecvError::Disconnected),
            };
            match first {
                Ok(first) => self.batch(first, waiting),
                Err(TryRecvError::Empty) => {}
                // What is still to be removed is removed when the cache is opened again.
                Err(TryRecvError::Disconnected) => break,
            }
            if self.is_over {
                self.shrink();
            }
        }
        let _ = self.write(&[]);
    }

    /// Keeps the first order's answer, and those that wait by now, together.
    fn batch(&mut self, first: Order, waiting: &Receiver<Order>) {
        let (mut rows, mut asked, mut bytes) = (Vec::new(), Vec::new(), 0);
        let mut next = Some(first);
        while let Some(order) = next.take() {
            match order {
                Order::NoteUse(key) => {
                    self.used.insert(key);
                }
                Order::Keep(key, answer, who) => {
                    let packed = self.packer.pack(&key, answer);
                    if packed.bytes.len() as u64 > self.target() {
                        // It would drive out all others, and then itself.
                        let _ = who.send(Ok(()));
                    } else {
                        bytes += packed.bytes.len();
                        rows.push((key, packed));
                        asked.push(who);
                    }
                }
            }
            if rows.len() < TOGETHER && bytes < BYTES_TOGETHER && self.used.len() < USES_TOGETHER {
                next = waiting.try_recv().ok();
            }
        }
        if rows.is_empty() && self.used.len() < USES_TOGETHER {
            return;
        }
        let is_single = rows.len() == 1 && self.used.is_empty();
        let together = self.write(&rows);
        let mut written = vec![together.clone(); rows.len()];
        if together.is_err() && !is_single {
            // One alone may be at fault.
            written = rows.chunks(1).map(|row| self.write(row)).collect();
        }
        for (who, written) in asked.into_iter().zip(written) {
            // Whoever asked may have gone; the answer is kept all the same.
            let _ = who.send(written);
        }
        self.look_at_size();
    }

    /// Writes answers and the uses that were to be noted. The error is why nothing of it was written.
    fn write(&mut self, rows: &[(Key, Packed)]) -> Result<(), String> {
        // A use that cannot be noted is forgotten, so that it does no further harm.
        let used = take(&mut self.used);
        let mut write = || {
            let transaction = database::begin(&mut self.connection)?;
            for key in &used {
                database::note_use(&transaction, key)?;
            }
            for (key, packed) in rows {
                database::write(&transaction, key, packed)?;
            }
            transaction.commit()
        };
        write().map_err(|error| match database::is_damage(&error) {
            true => format!("{} is damaged, move it away ({error})", self.path.display()),
            false => error.to_string(),
        })
    }

    /// Bytes that are left when answers have been removed.
    fn target(&self) -> u64 {
        self.limit - self.limit / 10
    }

    fn look_at_size(&mut self) {
        self.limit = database::limit(&self.connection);
        let is_beyond = database::sizes(&self.connection).is_ok_and(|sizes| sizes.file > self.limit);
        self.is_over |= is_beyond && !self.is_stuck;
    }

    /// Removes a piece of what is beyond the limit.
    fn shrink(&mut self) {
        let target = self.target();
        let more = database::shrink(&mut self.connection, target, self.limit);
        self.is_over = more.unwrap_or_else(|error| {
            // Anything else is tried again after the next answer.
            self.is_stuck = database::is_damage(&error);
            if self.is_stuck {
                let what = "damaged; nothing can be removed from it. Move it away to start a new cache";
                gradus_durable::report_damage(&self.path, what);
            }
            false
        });
    }
}
