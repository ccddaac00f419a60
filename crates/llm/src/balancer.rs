//! Load balancing over endpoints that serve one model: which of them gets a request, and which are paused.
//!
//! - A request takes a permit at the healthy endpoint with the smallest share of its permits taken. Without a free permit it
//!   queues, and a permit that is left goes to the request that has waited longest.
//! - An endpoint that fails three times in a row is out for 1 s; one that asks to wait is out for that long. Then a single
//!   request probes it. If that fails, too, the time doubles, up to 60 s; otherwise the endpoint is back.
//! - If all are out, requests wait for the first to come back. A request gives up once as many probes of each endpoint
//!   failed as it has attempts left.
//!
//! An endpoint that is alone for good is never out: its requests wait by themselves, as each of them would anyway.
//!
//! Endpoints may come and go: one that goes gets no further requests and finishes those it has, and keeps its number, so
//! that it is the same one when it comes back.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep, sleep_until};

use crate::connection::Connection;
use crate::{Endpoint, Result};

/// Failures in a row after which an endpoint is out.
const FAILURES: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// As good as never, for a clock that cannot add up to much more.
const FOREVER: Duration = Duration::from_secs(31_536_000);

pub(crate) struct Balancer {
    connections: RwLock<Vec<Arc<Connection>>>,
    /// Whether endpoints come and go.
    may_change: bool,
    state: Mutex<State>,
    /// An endpoint went out or came back, so who waits has to look again.
    changed: Notify,
}

struct State {
    permits: Vec<Permits>,
    queue: VecDeque<oneshot::Sender<Permit>>,
    /// Where the search for a permit begins, so that equals take turns.
    turn: usize,
    failed_probes: u64,
    /// What the last endpoint in trouble said.
    last: String,
}

/// The permits of one endpoint.
struct Permits {
    all: usize,
    taken: usize,
    failures: u32,
    out: Option<Out>,
    /// It gets no further requests.
    is_gone: bool,
}

struct Out {
    until: Instant,
    pause: Duration,
    probed: bool,
}

/// The right to one request at a time; free again once dropped.
pub(crate) struct Permit {
    balancer: Option<Arc<Balancer>>,
    pub(crate) endpoint: usize,
    probe: bool,
}

impl Balancer {
    pub(crate) fn new(connections: Vec<Connection>, may_change: bool) -> Self {
        let state = State {
            permits: connections.iter().map(Permits::of).collect(),
            queue: VecDeque::new(),
            turn: 0,
            failed_probes: 0,
            last: String::new(),
        };
        let connections = RwLock::new(connections.into_iter().map(Arc::new).collect());
        Self { connections, may_change, state: Mutex::new(state), changed: Notify::new() }
    }

    /// All endpoints, those that are gone included.
    pub(crate) fn connections(&self) -> Vec<Arc<Connection>> {
        self.connections.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// An endpoint by its number.
    pub(crate) fn connection(&self, endpoint: usize) -> Arc<Connection> {
        self.connections.read().unwrap_or_else(PoisonError::into_inner)[endpoint].clone()
    }

    /// How many endpoints get requests.
    pub(crate) fn count(&self) -> usize {
        self.lock().here().count()
    }

    /// Makes these the endpoints that get requests. Returns how many came and how many went.
    pub(crate) fn replace(&self, endpoints: &[Endpoint]) -> Result<(usize, usize)> {
        let mut connections = self.connections.write().unwrap_or_else(PoisonError::into_inner);
        let is_new = |endpoint: &&Endpoint| {
            connections.iter().all(|known| known.endpoint.base_url != endpoint.base_url)
        };
        let new: Vec<_> = endpoints.iter().filter(is_new).map(Connection::open).collect::<Result<_>>()?;
        let mut state = self.lock();
        state
            .permits
            .extend(new.iter().map(|connection| Permits { is_gone: true, ..Permits::of(connection) }));
        connections.extend(new.into_iter().map(Arc::new));
        let (mut came, mut went) = (0, 0);
        for (connection, permits) in connections.iter().zip(&mut state.permits) {
            let stays = endpoints.iter().any(|endpoint| endpoint.base_url == connection.endpoint.base_url);
            came += usize::from(stays && permits.is_gone);
            went += usize::from(!stays && !permits.is_gone);
            if stays && permits.is_gone {
                (permits.failures, permits.out) = (0, None);
            }
            permits.is_gone = !stays;
        }
        drop((state, connections));
        self.changed.notify_waiters();
        Ok((came, went))
    }

    /// A permit, as soon as there is one. `patience` is how many further attempts the call has; `longest` is how long it
    /// may be asked to wait for a server that said when it is back. The error is what to tell of endpoints that are all out.
    /// `look` is called now and then while waiting.
    pub(crate) async fn take(
        self: &Arc<Self>,
        patience: u32,
        longest: Duration,
        look: impl Fn() -> Option<Duration>,
    ) -> std::result::Result<Permit, String> {
        let mut ticket: Option<oneshot::Receiver<Permit>> = None;
        let mut probes_before = None;
        loop {
            let again = look();
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(Ok(permit)) = ticket.as_mut().map(oneshot::Receiver::try_recv) {
                return Ok(permit);
            }
            let back = {
                let mut state = self.lock();
                if let Some((endpoint, probe)) = state
                    .due()
                    .map(|endpoint| (endpoint, true))
                    .or_else(|| state.least_loaded(|_| true).map(|endpoint| (endpoint, false)))
                {
                    return Ok(self.permit(endpoint, probe));
                }
                let back = state.first_back();
                if state.here().all(|permits| permits.out.is_some()) {
                    let before = *probes_before.get_or_insert(state.failed_probes);
                    let allowed = u64::from(patience) * state.here().count() as u64;
                    let latest = Instant::now() + longest.max(LONGEST_PAUSE);
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
                back.unwrap_or_else(|| Instant::now() + FOREVER)
            };
            let handed = async {
                match &mut ticket {
                    Some(ticket) => ticket.await.ok(),
                    None => None,
                }
            };
            tokio::select! {
                Some(permit) = handed => return Ok(permit),
                () = &mut changed => {}
                () = sleep_until(back) => {}
                () = sleep(again.unwrap_or(FOREVER)) => {}
            }
        }
    }

    /// A permit at a healthy endpoint that was not tried yet, if one is free now.
    pub(crate) fn elsewhere(self: &Arc<Self>, tried: &[bool]) -> Option<Permit> {
        let endpoint = self.lock().least_loaded(|endpoint| tried.get(endpoint) != Some(&true))?;
        Some(self.permit(endpoint, false))
    }

    /// Whether an endpoint gets no requests now.
    pub(crate) fn is_out(&self, endpoint: usize) -> bool {
        let permits = &self.lock().permits[endpoint];
        permits.out.is_some() || permits.is_gone
    }

    /// The endpoint answered, if only to refuse.
    pub(crate) fn succeeded(self: &Arc<Self>, permit: &mut Permit) {
        permit.probe = false;
        let mut handed = Vec::new();
        {
            let mut state = self.lock();
            let State { permits, queue, .. } = &mut *state;
            let permits = &mut permits[permit.endpoint];
            permits.failures = 0;
            if permits.out.take().is_none() {
                return;
            }
            while permits.taken < permits.all
                && !permits.is_gone
                && let Some(sender) = queue.pop_front()
            {
                permits.taken += 1;
                handed.push(sender);
            }
        }
        self.changed.notify_waiters();
        for sender in handed {
            // A permit that nobody waits for any more comes back by itself.
            drop(sender.send(self.permit(permit.endpoint, false)));
        }
    }

    /// The endpoint failed.
    pub(crate) fn failed(&self, permit: &mut Permit, why: String) {
        if !self.may_change && self.connections().len() == 1 {
            return;
        }
        let probe = std::mem::take(&mut permit.probe);
        let mut state = self.lock();
        state.failed_probes += u64::from(probe);
        let permits = &mut state.permits[permit.endpoint];
        permits.failures += 1;
        match &mut permits.out {
            Some(out) if probe => {
                let pause = (out.pause * 2).min(LONGEST_PAUSE);
                *out = Out { until: Instant::now() + pause, pause, probed: false };
            }
            None if permits.failures >= FAILURES => {
                permits.out =
                    Some(Out { until: Instant::now() + FIRST_PAUSE, pause: FIRST_PAUSE, probed: false });
            }
            _ => return,
        }
        state.last = why;
        drop(state);
        self.changed.notify_waiters();
    }

    /// The endpoint is well but asks to be left alone for a while.
    pub(crate) fn pause(&self, permit: &mut Permit, time: Duration, why: String) {
        let probe = std::mem::take(&mut permit.probe);
        let mut state = self.lock();
        state.failed_probes += u64::from(probe);
        state.last = why;
        let until = Instant::now() + time.min(FOREVER);
        let out = &mut state.permits[permit.endpoint].out;
        // The request that is told to wait longest is right.
        if probe || out.as_ref().is_none_or(|out| out.until < until) {
            *out = Some(Out { until, pause: FIRST_PAUSE / 2, probed: false });
        }
        drop(state);
        self.changed.notify_waiters();
    }

    fn permit(self: &Arc<Self>, endpoint: usize, probe: bool) -> Permit {
        Permit { balancer: Some(self.clone()), endpoint, probe }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn free(self: &Arc<Self>, endpoint: usize, probe: bool) {
        loop {
            let mut state = self.lock();
            let State { permits, queue, .. } = &mut *state;
            let permits = &mut permits[endpoint];
            let next = if permits.out.is_none() && !permits.is_gone { queue.pop_front() } else { None };
            let Some(sender) = next else {
                let was_full = permits.taken == permits.all;
                permits.taken -= 1;
                if let Some(out) = &mut permits.out {
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
            match sender.send(self.permit(endpoint, false)) {
                Ok(()) => return,
                // Whoever waited is gone, and this permit is handed to the next.
                Err(mut permit) => permit.balancer = None,
            }
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(balancer) = self.balancer.take() {
            balancer.free(self.endpoint, self.probe);
        }
    }
}

impl Permits {
    fn of(connection: &Connection) -> Self {
        Self { all: connection.endpoint.concurrency, taken: 0, failures: 0, out: None, is_gone: false }
    }
}

impl State {
    /// The endpoints that get requests.
    fn here(&self) -> impl Iterator<Item = &Permits> {
        self.permits.iter().filter(|permits| !permits.is_gone)
    }

    /// Takes the probe of an endpoint whose time is over.
    fn due(&mut self) -> Option<usize> {
        let now = Instant::now();
        let is_due = |permits: &Permits| {
            permits.taken < permits.all
                && !permits.is_gone
                && permits.out.as_ref().is_some_and(|out| !out.probed && out.until <= now)
        };
        let endpoint = self.permits.iter().position(is_due)?;
        let permits = &mut self.permits[endpoint];
        permits.taken += 1;
        if let Some(out) = &mut permits.out {
            out.probed = true;
        }
        Some(endpoint)
    }

    /// Takes a permit at the healthy endpoint with the smallest share of permits taken.
    fn least_loaded(&mut self, may: impl Fn(usize) -> bool) -> Option<usize> {
        let count = self.permits.len();
        self.turn = (self.turn + 1) % count;
        let free = |&endpoint: &usize| {
            let permits = &self.permits[endpoint];
            may(endpoint) && permits.out.is_none() && !permits.is_gone && permits.taken < permits.all
        };
        let share =
            |&endpoint: &usize| self.permits[endpoint].taken as f64 / self.permits[endpoint].all as f64;
        let in_turn = (0..count).map(|step| (self.turn + step) % count);
        let endpoint = in_turn.filter(free).min_by(|one, other| share(one).total_cmp(&share(other)))?;
        self.permits[endpoint].taken += 1;
        Some(endpoint)
    }

    /// When the first endpoint may be probed that nobody is probing.
    fn first_back(&self) -> Option<Instant> {
        let waiting = |permits: &Permits| permits.out.as_ref().filter(|out| !out.probed).map(|out| out.until);
        // One without a free permit cannot be probed before a request there ends.
        self.here().filter(|permits| permits.taken < permits.all).filter_map(waiting).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_secs(60);

    fn balancer(concurrencies: &[usize]) -> Arc<Balancer> {
        let endpoint = |&concurrency: &usize| {
            let endpoint = Endpoint { concurrency, ..Endpoint::new("http://127.0.0.1:1", "m") };
            Connection::open(&endpoint).unwrap()
        };
        Arc::new(Balancer::new(concurrencies.iter().map(endpoint).collect(), false))
    }

    fn taken(balancer: &Balancer) -> Vec<usize> {
        balancer.lock().permits.iter().map(|permits| permits.taken).collect()
    }

    /// Fails until every endpoint is out.
    async fn put_out(balancer: &Arc<Balancer>) {
        while (0..balancer.connections().len()).any(|endpoint| !balancer.is_out(endpoint)) {
            let mut permit = balancer.take(0, LONGEST, || None).await.unwrap();
            balancer.failed(&mut permit, "is down".into());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn rests_double_up_to_a_minute_and_end_with_the_first_success() {
        let balancer = balancer(&[4, 4]);
        // The second is busy elsewhere, so all eyes are on the first.
        let others: Vec<Permit> = (0..4).map(|_| balancer.elsewhere(&[true, false]).unwrap()).collect();
        for _ in 0..3 {
            assert!(!balancer.is_out(0));
            let mut permit = balancer.take(0, LONGEST, || None).await.unwrap();
            balancer.failed(&mut permit, "is down".into());
        }
        for expected in [1, 2, 4, 8, 16, 32, 60, 60] {
            let began = Instant::now();
            let mut probe = balancer.take(0, LONGEST, || None).await.unwrap();
            assert_eq!((probe.endpoint, began.elapsed().as_secs()), (0, expected));
            // While it is probed, nobody else gets there.
            let second = tokio::time::timeout(LONGEST, balancer.take(0, LONGEST, || None)).await;
            assert!(second.is_err());
            balancer.failed(&mut probe, "is down".into());
        }
        let mut probe = balancer.take(0, LONGEST, || None).await.unwrap();
        let waiting = balancer.take(0, LONGEST, || None);
        let cure = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            balancer.succeeded(&mut probe);
        };
        let (permit, ()) = tokio::join!(waiting, cure);
        assert_eq!(permit.unwrap().endpoint, 0);
        drop((probe, others));
        assert_eq!(taken(&balancer), [0, 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_probe_that_is_given_up_is_left_to_the_next() {
        let balancer = balancer(&[1, 1]);
        put_out(&balancer).await;
        let probes = [
            balancer.take(0, LONGEST, || None).await.unwrap(),
            balancer.take(0, LONGEST, || None).await.unwrap(),
        ];
        let waiting = balancer.take(0, LONGEST, || None);
        let give_up = async {
            tokio::time::sleep(Duration::from_secs(3)).await;
            drop(probes);
        };
        let (permit, ()) = tokio::join!(waiting, give_up);
        assert!(permit.unwrap().probe);
        assert_eq!(taken(&balancer), [0, 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn patience_ends_after_as_many_failed_probes_of_each() {
        for patience in [0, 1, 3] {
            let balancer = balancer(&[1, 1]);
            put_out(&balancer).await;
            let probing = async {
                loop {
                    let mut permit = balancer.take(100, LONGEST, || None).await.unwrap();
                    balancer.failed(&mut permit, "is down".into());
                }
            };
            let began = Instant::now();
            // The first of these is always the one that probes.
            tokio::select! {
                biased;
                never = probing => never,
                permit = balancer.take(patience, LONGEST, || None) => assert_eq!(permit.err().as_deref(), Some("is down")),
            }
            assert_eq!(began.elapsed().as_secs(), (1 << (patience + 1)) - 1);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn permits_go_to_who_waited_longest_and_none_is_lost() {
        let balancer = balancer(&[2, 1]);
        let permits: Vec<Permit> = join(&balancer, 3).await;
        assert_eq!(taken(&balancer), [2, 1]);
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut waiting = tokio::task::JoinSet::new();
        for number in 0..8 {
            let (balancer, order) = (balancer.clone(), order.clone());
            let patience = Duration::from_secs(if number == 1 { 1 } else { 100 });
            waiting.spawn(tokio::time::timeout(patience, async move {
                let permit = balancer.take(0, LONGEST, || None).await.unwrap();
                order.lock().unwrap().push(number);
                tokio::time::sleep(Duration::from_secs(1)).await;
                drop(permit);
            }));
            tokio::task::yield_now().await;
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        drop(permits);
        waiting.join_all().await;
        assert_eq!(*order.lock().unwrap(), [0, 2, 3, 4, 5, 6, 7]);
        assert_eq!(taken(&balancer), [0, 0]);
    }

    async fn join(balancer: &Arc<Balancer>, count: usize) -> Vec<Permit> {
        let mut permits = Vec::new();
        for _ in 0..count {
            permits.push(balancer.take(0, LONGEST, || None).await.unwrap());
        }
        permits
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_is_kept_and_one_beyond_the_limit_is_an_error() {
        let balancer = balancer(&[1, 1]);
        for seconds in [5, 30] {
            let mut permit = balancer.take(0, LONGEST, || None).await.unwrap();
            balancer.pause(&mut permit, Duration::from_secs(seconds), format!("asks for {seconds} s"));
        }
        let began = Instant::now();
        let mut permit = balancer.take(0, LONGEST, || None).await.unwrap();
        assert_eq!(began.elapsed().as_secs(), 5);
        balancer.pause(&mut permit, Duration::from_secs(7200), "asks for two hours".into());
        drop(permit);
        let mut permit = balancer.take(0, LONGEST, || None).await.unwrap();
        assert_eq!(began.elapsed().as_secs(), 30);
        balancer.pause(&mut permit, Duration::from_secs(7200), "asks for two hours".into());
        drop(permit);
        assert_eq!(balancer.take(5, LONGEST, || None).await.err().as_deref(), Some("asks for two hours"));
    }

    #[tokio::test(start_paused = true)]
    async fn endpoints_come_and_go() {
        let at =
            |port: u16| Endpoint { concurrency: 1, ..Endpoint::new(format!("http://127.0.0.1:{port}"), "m") };
        let balancer = Arc::new(Balancer::new(vec![Connection::open(&at(1)).unwrap()], true));
        let first = balancer.take(0, LONGEST, || None).await.unwrap();
        // Who waits gets a permit at the endpoint that comes.
        let waiting = balancer.take(0, LONGEST, || None);
        let come = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(balancer.replace(&[at(1), at(2)]).unwrap(), (1, 0));
        };
        let (second, ()) = tokio::join!(waiting, come);
        let second = second.unwrap();
        assert_eq!((first.endpoint, second.endpoint, balancer.count()), (0, 1, 2));
        // The first goes: what it does is finished, and nothing more is sent there.
        assert_eq!(balancer.replace(&[at(2)]).unwrap(), (0, 1));
        drop(first);
        assert_eq!(taken(&balancer), [0, 1]);
        assert!(tokio::time::timeout(LONGEST, balancer.take(0, LONGEST, || None)).await.is_err());
        // It comes back under its number.
        assert_eq!(balancer.replace(&[at(1), at(2)]).unwrap(), (1, 0));
        assert_eq!(balancer.take(0, LONGEST, || None).await.unwrap().endpoint, 0);
        drop(second);
        assert_eq!((taken(&balancer), balancer.connections().len()), (vec![0, 0], 2));
        // Without any, requests wait for one, and look for it.
        balancer.replace(&[]).unwrap();
        let looks = std::cell::Cell::new(0);
        let look = || {
            looks.set(looks.get() + 1);
            if looks.get() == 3 {
                balancer.replace(&[at(3)]).unwrap();
            }
            Some(Duration::from_secs(2))
        };
        assert_eq!(balancer.take(5, LONGEST, look).await.unwrap().endpoint, 2);
    }
}
