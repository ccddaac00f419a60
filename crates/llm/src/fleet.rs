//! Several endpoints that serve one model: which of them gets a request, and which get none for a while.
//!
//! - A request takes a seat at the healthy endpoint with the smallest share of its seats taken. Without a free seat it
//!   queues, and a seat that is left goes to the request that has waited longest.
//! - An endpoint that fails three times in a row is out for 1 s; one that asks to wait is out for that long. Then a single
//!   request probes it. If that fails, too, the time doubles, up to 60 s; otherwise the endpoint is back.
//! - If all are out, requests wait for the first to come back. A request gives up once as many probes of each endpoint
//!   failed as it has attempts left.
//!
//! An endpoint that is alone is never out: its requests wait by themselves, as each of them would anyway.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep_until};

use crate::place::Place;

/// Failures in a row after which an endpoint is out.
const FAILURES: u32 = 3;
const FIRST_REST: Duration = Duration::from_secs(1);
const LONGEST_REST: Duration = Duration::from_secs(60);
/// As good as never, for a clock that cannot add up to much more.
const NEVER: Duration = Duration::from_secs(31_536_000);

pub(crate) struct Fleet {
    pub(crate) places: Vec<Place>,
    state: Mutex<State>,
    /// An endpoint went out or came back, so who waits has to look again.
    changed: Notify,
}

struct State {
    seats: Vec<Seats>,
    queue: VecDeque<oneshot::Sender<Seat>>,
    /// Where the search for a seat begins, so that equals take turns.
    turn: usize,
    failed_probes: u64,
    /// What the last endpoint in trouble said.
    last: String,
}

/// The seats of one endpoint.
struct Seats {
    all: usize,
    taken: usize,
    failures: u32,
    out: Option<Out>,
}

struct Out {
    until: Instant,
    rest: Duration,
    probed: bool,
}

/// The right to one request at a time; free again once dropped.
pub(crate) struct Seat {
    fleet: Option<Arc<Fleet>>,
    pub(crate) place: usize,
    probe: bool,
}

impl Fleet {
    pub(crate) fn new(places: Vec<Place>) -> Self {
        let seats =
            |place: &Place| Seats { all: place.endpoint.concurrency, taken: 0, failures: 0, out: None };
        let state = State {
            seats: places.iter().map(seats).collect(),
            queue: VecDeque::new(),
            turn: 0,
            failed_probes: 0,
            last: String::new(),
        };
        Self { places, state: Mutex::new(state), changed: Notify::new() }
    }

    /// A seat, as soon as there is one. `patience` is how many further attempts the call has; `longest` is how long it
    /// may be asked to wait for a server that said when it is back. The error is what to tell of endpoints that are all out.
    pub(crate) async fn take(
        self: &Arc<Self>,
        patience: u32,
        longest: Duration,
    ) -> std::result::Result<Seat, String> {
        let mut ticket: Option<oneshot::Receiver<Seat>> = None;
        let mut probes_before = None;
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(Ok(seat)) = ticket.as_mut().map(oneshot::Receiver::try_recv) {
                return Ok(seat);
            }
            let back = {
                let mut state = self.lock();
                if let Some((place, probe)) = state
                    .due()
                    .map(|place| (place, true))
                    .or_else(|| state.roomiest(|_| true).map(|place| (place, false)))
                {
                    return Ok(self.seat(place, probe));
                }
                let back = state.first_back();
                if state.seats.iter().all(|seats| seats.out.is_some()) {
                    let before = *probes_before.get_or_insert(state.failed_probes);
                    let allowed = u64::from(patience) * self.places.len() as u64;
                    let latest = Instant::now() + longest.max(LONGEST_REST);
                    if state.failed_probes - before > allowed || back.is_some_and(|back| back > latest) {
                        return Err(state.last.clone());
                    }
                } else {
                    probes_before = None;
                }
                if ticket.is_none() {
                    let (sender, receiver) = oneshot::channel();
                    state.queue.push_back(sender);
                    ticket = Some(receiver);
                }
                back.unwrap_or_else(|| Instant::now() + NEVER)
            };
            let handed = async {
                match &mut ticket {
                    Some(ticket) => ticket.await.ok(),
                    None => None,
                }
            };
            tokio::select! {
                Some(seat) = handed => return Ok(seat),
                () = &mut changed => {}
                () = sleep_until(back) => {}
            }
        }
    }

    /// A seat at a healthy endpoint that was not tried yet, if one is free now.
    pub(crate) fn elsewhere(self: &Arc<Self>, tried: &[bool]) -> Option<Seat> {
        let place = self.lock().roomiest(|place| !tried[place])?;
        Some(self.seat(place, false))
    }

    pub(crate) fn is_out(&self, place: usize) -> bool {
        self.lock().seats[place].out.is_some()
    }

    /// The endpoint answered, if only to refuse.
    pub(crate) fn well(self: &Arc<Self>, seat: &mut Seat) {
        seat.probe = false;
        let mut handed = Vec::new();
        {
            let mut state = self.lock();
            let State { seats, queue, .. } = &mut *state;
            let seats = &mut seats[seat.place];
            seats.failures = 0;
            if seats.out.take().is_none() {
                return;
            }
            while seats.taken < seats.all
                && let Some(sender) = queue.pop_front()
            {
                seats.taken += 1;
                handed.push(sender);
            }
        }
        self.changed.notify_waiters();
        for sender in handed {
            // A seat that nobody waits for any more comes back by itself.
            drop(sender.send(self.seat(seat.place, false)));
        }
    }

    /// The endpoint failed.
    pub(crate) fn sick(&self, seat: &mut Seat, why: String) {
        if self.places.len() == 1 {
            return;
        }
        let probe = std::mem::take(&mut seat.probe);
        let mut state = self.lock();
        state.failed_probes += u64::from(probe);
        let seats = &mut state.seats[seat.place];
        seats.failures += 1;
        match &mut seats.out {
            Some(out) if probe => {
                let rest = (out.rest * 2).min(LONGEST_REST);
                *out = Out { until: Instant::now() + rest, rest, probed: false };
            }
            None if seats.failures >= FAILURES => {
                seats.out = Some(Out { until: Instant::now() + FIRST_REST, rest: FIRST_REST, probed: false });
            }
            _ => return,
        }
        state.last = why;
        drop(state);
        self.changed.notify_waiters();
    }

    /// The endpoint is well but asks to be left alone for a while.
    pub(crate) fn rest(&self, seat: &mut Seat, time: Duration, why: String) {
        let probe = std::mem::take(&mut seat.probe);
        let mut state = self.lock();
        state.failed_probes += u64::from(probe);
        state.last = why;
        let until = Instant::now() + time.min(NEVER);
        let out = &mut state.seats[seat.place].out;
        // The request that is told to wait longest is right.
        if probe || out.as_ref().is_none_or(|out| out.until < until) {
            *out = Some(Out { until, rest: FIRST_REST / 2, probed: false });
        }
        drop(state);
        self.changed.notify_waiters();
    }

    fn seat(self: &Arc<Self>, place: usize, probe: bool) -> Seat {
        Seat { fleet: Some(self.clone()), place, probe }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn free(self: &Arc<Self>, place: usize, probe: bool) {
        loop {
            let mut state = self.lock();
            let State { seats, queue, .. } = &mut *state;
            let seats = &mut seats[place];
            let next = if seats.out.is_none() { queue.pop_front() } else { None };
            let Some(sender) = next else {
                let was_full = seats.taken == seats.all;
                seats.taken -= 1;
                if let Some(out) = &mut seats.out {
                    // A probe that was given up leaves the next one to somebody else.
                    out.probed &= !probe;
                    if probe || was_full {
                        drop(state);
                        self.changed.notify_waiters();
                    }
                }
                return;
            };
            drop(state);
            match sender.send(self.seat(place, false)) {
                Ok(()) => return,
                // Whoever waited is gone, and this seat is handed to the next.
                Err(mut seat) => seat.fleet = None,
            }
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(fleet) = self.fleet.take() {
            fleet.free(self.place, self.probe);
        }
    }
}

impl State {
    /// Takes the probe of an endpoint whose time is over.
    fn due(&mut self) -> Option<usize> {
        let now = Instant::now();
        let is_due = |seats: &Seats| {
            seats.taken < seats.all && seats.out.as_ref().is_some_and(|out| !out.probed && out.until <= now)
        };
        let place = self.seats.iter().position(is_due)?;
        let seats = &mut self.seats[place];
        seats.taken += 1;
        if let Some(out) = &mut seats.out {
            out.probed = true;
        }
        Some(place)
    }

    /// Takes a seat at the healthy endpoint with the smallest share of seats taken.
    fn roomiest(&mut self, may: impl Fn(usize) -> bool) -> Option<usize> {
        let count = self.seats.len();
        self.turn = (self.turn + 1) % count;
        let free = |&place: &usize| {
            let seats = &self.seats[place];
            may(place) && seats.out.is_none() && seats.taken < seats.all
        };
        let share = |&place: &usize| self.seats[place].taken as f64 / self.seats[place].all as f64;
        let in_turn = (0..count).map(|step| (self.turn + step) % count);
        let place = in_turn.filter(free).min_by(|one, other| share(one).total_cmp(&share(other)))?;
        self.seats[place].taken += 1;
        Some(place)
    }

    /// When the first endpoint may be probed that nobody is probing.
    fn first_back(&self) -> Option<Instant> {
        let waiting = |seats: &Seats| seats.out.as_ref().filter(|out| !out.probed).map(|out| out.until);
        // One without a free seat cannot be probed before a request there ends.
        self.seats.iter().filter(|seats| seats.taken < seats.all).filter_map(waiting).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Endpoint;

    const LONGEST: Duration = Duration::from_secs(60);

    fn fleet(concurrencies: &[usize]) -> Arc<Fleet> {
        let place = |&concurrency: &usize| {
            let endpoint = Endpoint { concurrency, ..Endpoint::new("http://127.0.0.1:1", "m") };
            Place::open(&endpoint).unwrap()
        };
        Arc::new(Fleet::new(concurrencies.iter().map(place).collect()))
    }

    fn taken(fleet: &Fleet) -> Vec<usize> {
        fleet.lock().seats.iter().map(|seats| seats.taken).collect()
    }

    /// Fails until every endpoint is out.
    async fn put_out(fleet: &Arc<Fleet>) {
        while (0..fleet.places.len()).any(|place| !fleet.is_out(place)) {
            let mut seat = fleet.take(0, LONGEST).await.unwrap();
            fleet.sick(&mut seat, "is ill".into());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn rests_double_up_to_a_minute_and_end_with_the_first_success() {
        let fleet = fleet(&[4, 4]);
        // The second is busy elsewhere, so all eyes are on the first.
        let others: Vec<Seat> = (0..4).map(|_| fleet.elsewhere(&[true, false]).unwrap()).collect();
        for _ in 0..3 {
            assert!(!fleet.is_out(0));
            let mut seat = fleet.take(0, LONGEST).await.unwrap();
            fleet.sick(&mut seat, "is ill".into());
        }
        for expected in [1, 2, 4, 8, 16, 32, 60, 60] {
            let began = Instant::now();
            let mut probe = fleet.take(0, LONGEST).await.unwrap();
            assert_eq!((probe.place, began.elapsed().as_secs()), (0, expected));
            // While it is probed, nobody else gets there.
            let second = tokio::time::timeout(LONGEST, fleet.take(0, LONGEST)).await;
            assert!(second.is_err());
            fleet.sick(&mut probe, "is ill".into());
        }
        let mut probe = fleet.take(0, LONGEST).await.unwrap();
        let waiting = fleet.take(0, LONGEST);
        let cure = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            fleet.well(&mut probe);
        };
        let (seat, ()) = tokio::join!(waiting, cure);
        assert_eq!(seat.unwrap().place, 0);
        drop((probe, others));
        assert_eq!(taken(&fleet), [0, 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_probe_that_is_given_up_is_left_to_the_next() {
        let fleet = fleet(&[1, 1]);
        put_out(&fleet).await;
        let probes = [fleet.take(0, LONGEST).await.unwrap(), fleet.take(0, LONGEST).await.unwrap()];
        let waiting = fleet.take(0, LONGEST);
        let give_up = async {
            tokio::time::sleep(Duration::from_secs(3)).await;
            drop(probes);
        };
        let (seat, ()) = tokio::join!(waiting, give_up);
        assert!(seat.unwrap().probe);
        assert_eq!(taken(&fleet), [0, 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn patience_ends_after_as_many_failed_probes_of_each() {
        for patience in [0, 1, 3] {
            let fleet = fleet(&[1, 1]);
            put_out(&fleet).await;
            let probing = async {
                loop {
                    let mut seat = fleet.take(100, LONGEST).await.unwrap();
                    fleet.sick(&mut seat, "is ill".into());
                }
            };
            let began = Instant::now();
            // The first of these is always the one that probes.
            tokio::select! {
                biased;
                never = probing => never,
                seat = fleet.take(patience, LONGEST) => assert_eq!(seat.err().as_deref(), Some("is ill")),
            }
            assert_eq!(began.elapsed().as_secs(), (1 << (patience + 1)) - 1);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn seats_go_to_who_waited_longest_and_none_is_lost() {
        let fleet = fleet(&[2, 1]);
        let seats: Vec<Seat> = join(&fleet, 3).await;
        assert_eq!(taken(&fleet), [2, 1]);
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut waiting = tokio::task::JoinSet::new();
        for number in 0..8 {
            let (fleet, order) = (fleet.clone(), order.clone());
            let patience = Duration::from_secs(if number == 1 { 1 } else { 100 });
            waiting.spawn(tokio::time::timeout(patience, async move {
                let seat = fleet.take(0, LONGEST).await.unwrap();
                order.lock().unwrap().push(number);
                tokio::time::sleep(Duration::from_secs(1)).await;
                drop(seat);
            }));
            tokio::task::yield_now().await;
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        drop(seats);
        waiting.join_all().await;
        assert_eq!(*order.lock().unwrap(), [0, 2, 3, 4, 5, 6, 7]);
        assert_eq!(taken(&fleet), [0, 0]);
    }

    async fn join(fleet: &Arc<Fleet>, count: usize) -> Vec<Seat> {
        let mut seats = Vec::new();
        for _ in 0..count {
            seats.push(fleet.take(0, LONGEST).await.unwrap());
        }
        seats
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_is_kept_and_one_beyond_the_limit_is_an_error() {
        let fleet = fleet(&[1, 1]);
        for seconds in [5, 30] {
            let mut seat = fleet.take(0, LONGEST).await.unwrap();
            fleet.rest(&mut seat, Duration::from_secs(seconds), format!("asks for {seconds} s"));
        }
        let began = Instant::now();
        let mut seat = fleet.take(0, LONGEST).await.unwrap();
        assert_eq!(began.elapsed().as_secs(), 5);
        fleet.rest(&mut seat, Duration::from_secs(7200), "asks for two hours".into());
        drop(seat);
        let mut seat = fleet.take(0, LONGEST).await.unwrap();
        assert_eq!(began.elapsed().as_secs(), 30);
        fleet.rest(&mut seat, Duration::from_secs(7200), "asks for two hours".into());
        drop(seat);
        assert_eq!(fleet.take(5, LONGEST).await.err().as_deref(), Some("asks for two hours"));
    }
}
