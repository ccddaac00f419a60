//! The threads that look answers up, each with a connection of its own, so that no look-up waits for a write.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::Key;
use super::database::{self, Access, Found};
use super::writer::Order;

/// Look-ups at once. More would wait for the same disk.
const THREADS: usize = 4;

/// A key to look up, and who is told.
type Question = (Key, oneshot::Sender<Option<Vec<u8>>>);

/// The threads.
pub(super) struct Readers {
    /// None once they are being ended.
    questions: Option<Sender<Question>>,
    threads: Vec<JoinHandle<()>>,
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.questions = None;
        for thread in self.threads.drain(..) {
            // A panic there has been told.
            let _ = thread.join();
        }
    }
}

impl Readers {
    /// Starts the threads. `used` takes the keys of answers whose use is to be noted.
    pub(super) fn start(path: &Path, access: Access, used: Option<&Sender<Order>>) -> std::io::Result<Self> {
        let (questions, waiting) = channel();
        let (waiting, has_told) = (Arc::new(Mutex::new(waiting)), Arc::new(AtomicBool::new(false)));
        let mut threads = Vec::with_capacity(THREADS);
        for _ in 0..THREADS {
            let reader = Reader {
                path: path.to_owned(),
                access,
                connection: None,
                used: used.cloned(),
                has_told: has_told.clone(),
            };
            let waiting = waiting.clone();
            let thread = std::thread::Builder::new().name("cache reader".to_owned());
            threads.push(thread.spawn(move || reader.serve(&waiting))?);
        }
        Ok(Self { questions: Some(questions), threads })
    }

    /// The answer under a key, if a whole one is there.
    pub(super) async fn get(&self, key: Key) -> Option<Vec<u8>> {
        let (sender, receiver) = oneshot::channel();
        self.questions.as_ref()?.send((key, sender)).ok()?;
        receiver.await.ok().flatten()
    }
}

struct Reader {
    path: PathBuf,
    access: Access,
    /// Opened for the first question.
    connection: Option<Connection>,
    used: Option<Sender<Order>>,
    /// Whether a thread of this cache has said that the file cannot be read.
    has_told: Arc<AtomicBool>,
}

impl Reader {
    fn serve(mut self, waiting: &Mutex<Receiver<Question>>) {
        let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        while let Ok((key, asked)) = next() {
            // Whoever asked may have gone: nobody needs the answer then.
            if !asked.is_closed() {
                let _ = asked.send(self.get(&key));
            }
        }
    }

    /// What cannot be read counts as absent.
    fn get(&mut self, key: &Key) -> Option<Vec<u8>> {
        match self.find(key) {
            Ok(Found::Nothing) => None,
            Ok(Found::Answer(answer, is_to_note)) => {
                if is_to_note && let Some(used) = &self.used {
                    // The writer may have ended; then the use is not noted.
                    let _ = used.send(Order::NoteUse(*key));
                }
                Some(answer)
            }
            Ok(Found::Damaged) => {
                gradus_durable::report_damage(&self.path, "a response is damaged; its request is sent again");
                None
            }
            Err(error) => {
                self.connection = None;
                if !self.has_told.swap(true, Ordering::Relaxed) {
                    let what = match database::is_damage(&error) {
                        true => {
                            "damaged; requests are sent again. Move it away to start a new cache".to_owned()
                        }
                        false => format!("cannot be read ({error}); requests are sent again"),
                    };
                    gradus_durable::report_damage(&self.path, &what);
                }
                None
            }
        }
    }

    fn find(&mut self, key: &Key) -> rusqlite::Result<Found> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => database::open_to_read(&self.path, self.access)?,
        };
        database::read(self.connection.insert(connection), key)
    }
}
