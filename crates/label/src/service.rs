//! The service: thread-safe, every method takes a request and gives an answer, every change is on disk before that.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use gradus_core::count::counted;
use gradus_core::{Annotation, Solution, time};
use gradus_durable::{EventLog, LoggedEvents, report_damage};

use crate::agreement::{Overview, overview};
use crate::events::{Event, Saved};
use crate::export::export;
use crate::order::{SortKey, disagreement, uncertainty, vote, votes};
use crate::requests::{
    Held, ItemRequest, NextRequest, NextResponse, PersonRequest, Progress, SaveRequest, SaveResponse, Shown,
    SuggestedLabel, Suggestions, Task,
};
use crate::state::State;
use crate::{Combine, Error, ExportFormat, Exported, Project, Result, SolutionLabel};

/// Characters of a name, and of a request's id, at most.
const NAME: usize = 80;

/// Makes safe HTML of a text.
pub type Renderer = Box<dyn Fn(&str) -> String + Send + Sync>;

/// Seconds since 1970; tests have their own.
type Clock = Box<dyn Fn() -> f64 + Send + Sync>;

/// A project that people label.
pub struct Labeling {
    project: Project,
    /// What the records' own labels and scores say of each item: people's labels come on top.
    said: Vec<Said>,
    inner: Mutex<Inner>,
    render: Option<Renderer>,
    clock: Clock,
    damaged: usize,
}

struct Inner {
    state: State,
    /// None where the project is open for reading only.
    log: Option<EventLog>,
    /// The last overview, and the number of changes that it was made after.
    overview: Option<(u64, Overview)>,
}

struct Said {
    votes: Vec<gradus_annotate::consensus::FirstErrorVote>,
    uncertainty: Option<f64>,
}

impl Labeling {
    /// Opens a project for this process alone.
    pub fn open(folder: &Path) -> Result<Self> {
        let project = Project::open(folder)?;
        let journal = project.journal();
        let (log, events) = EventLog::open(&journal).map_err(|error| match error.is_in_use() {
            true => Error::Project {
                path: folder.to_owned(),
                message: "is being labeled by another process: use its page, or stop it".to_owned(),
            },
            false => error.into(),
        })?;
        Ok(Self::over(project, Some(log), events))
    }

    /// Opens a project to read it, also while another process has it open.
    pub fn read(folder: &Path) -> Result<Self> {
        let project = Project::open(folder)?;
        let events = EventLog::read(&project.journal())?;
        Ok(Self::over(project, None, events))
    }

    fn over(project: Project, log: Option<EventLog>, events: LoggedEvents<Event>) -> Self {
        let clock: Clock = Box::new(time::seconds);
        let mut state = State::new(project.items(), project.settings.lease_seconds);
        for (number, event) in events.events {
            state.apply(number, event, clock());
        }
        if events.damaged > 0 {
            let lines = counted(events.damaged, "damaged line");
            report_damage(&project.journal(), &format!("{lines} skipped: those saves are lost"));
        }
        let threshold = project.settings.threshold;
        let of = |solution: &Solution| Said {
            votes: votes(solution, threshold),
            uncertainty: uncertainty(solution, threshold),
        };
        let said = (0..project.items()).filter_map(|item| Some(of(project.item(item)?.1))).collect();
        let inner = Mutex::new(Inner { state, log, overview: None });
        Self { project, said, inner, render: None, clock, damaged: events.damaged }
    }

    /// Sends problems and steps also as HTML, which `render` makes. What it returns is not escaped again.
    pub fn with_renderer(mut self, render: Renderer) -> Self {
        self.render = Some(render);
        self
    }

    /// With another clock, in seconds.
    #[doc(hidden)]
    pub fn with_clock(mut self, clock: impl Fn() -> f64 + Send + Sync + 'static) -> Self {
        self.clock = Box::new(clock);
        let now = (self.clock)();
        let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
        inner.state.restart_leases(now);
        self
    }

    /// The project.
    pub fn project(&self) -> &Project {
        &self.project
    }

    /// Lines of the journal that were damaged when the project was opened: what they said is lost.
    pub fn damaged_lines(&self) -> usize {
        self.damaged
    }

    /// The project at a glance. Computed anew only where something has changed, and while others go on labeling.
    pub fn overview(&self) -> Overview {
        let now = (self.clock)();
        let inner = self.lock();
        let changes = inner.state.changes;
        if let Some((_, known)) = inner.overview.as_ref().filter(|(made_after, _)| *made_after == changes) {
            let mut known = known.clone();
            // Leases run out without an event.
            for person in &mut known.people {
                person.holds = inner.state.held_by(&person.name, now);
            }
            return known;
        }
        let state = inner.state.clone();
        drop(inner);
        let found = overview(&self.project, &state, self.damaged, now);
        self.lock().overview = Some((changes, found.clone()));
        found
    }

    /// An item for this person: the one that the person holds and has not finished, or else the first in the queue that the person has not
    /// finished, that nobody else holds, and that enough people have not finished.
    pub fn next(&self, request: &NextRequest) -> Result<NextResponse> {
        let annotator = name(&request.annotator)?;
        let now = (self.clock)();
        let mut inner = self.lock();
        let held = inner.state.held_by(annotator, now);
        let chosen = match (request.item, request.after) {
            (Some(item), _) => {
                self.claim(&inner.state, annotator, item, now)?;
                Some(item)
            }
            // One that was finished and asked back, or taken back to, is not to be done again.
            (None, None) if held.is_some_and(|item| !inner.state.has_finished(annotator, item)) => held,
            (None, after) => self.first_in_queue(&inner.state, annotator, after, now),
        };
        let Some(item) = chosen else {
            let nothing = Some(self.nothing(&inner.state, annotator, now));
            return Ok(NextResponse {
                task: None,
                nothing,
                progress: self.progress(&inner.state, annotator),
            });
        };
        if held == Some(item) {
            inner.state.renew(annotator, item, now);
        } else {
            let event = Event::Given { annotator: annotator.to_owned(), item, time: time::now() };
            inner.commit(event, now)?;
        }
        Ok(self.response(&inner.state, annotator, item))
    }

    /// Saves a label. What another person holds, or what was changed elsewhere, is a conflict.
    pub fn save(&self, request: &SaveRequest) -> Result<SaveResponse> {
        let annotator = name(&request.annotator)?;
        let SaveRequest { item, revision, label, finished, .. } = request;
        let item = *item;
        let (_, solution) = self.item(item)?;
        label.check(solution.steps.len(), &self.project.settings.categories)?;
        if *finished {
            label.check_finished()?;
        }
        if request.request.chars().count() > NAME {
            return Err(Error::Invalid(format!("request has more than {NAME} characters")));
        }
        let now = (self.clock)();
        let mut inner = self.lock();
        if let Some((item, revision)) = inner.state.answered(annotator, &request.request) {
            return Ok(SaveResponse { item, revision, progress: self.progress(&inner.state, annotator) });
        }
        self.claim(&inner.state, annotator, item, now)?;
        let found = inner.state.revision(annotator, item);
        if found != *revision {
            return Err(Error::StaleRevision { item, expected: *revision, found });
        }
        let saved = Saved {
            annotator: annotator.to_owned(),
            item,
            time: time::now(),
            request: request.request.clone(),
            label: label.clone(),
            finished: *finished,
            suggestions_seen: inner.state.has_seen(annotator, item),
        };
        inner.commit(Event::Saved(Box::new(saved)), now)?;
        let revision = inner.state.revision(annotator, item);
        Ok(SaveResponse { item, revision, progress: self.progress(&inner.state, annotator) })
    }

    /// Takes the person's last save back, and gives that item as it was before.
    pub fn undo(&self, request: &PersonRequest) -> Result<NextResponse> {
        let annotator = name(&request.annotator)?;
        let now = (self.clock)();
        let mut inner = self.lock();
        let (save, item) = inner.state.last_save_of(annotator).ok_or(Error::NothingToUndo)?;
        self.claim(&inner.state, annotator, item, now)?;
        let event = Event::Undone { annotator: annotator.to_owned(), save, time: time::now() };
        inner.commit(event, now)?;
        Ok(self.response(&inner.state, annotator, item))
    }

    /// What models and datasets say of an item. That it was asked for is kept, and noted in the person's label.
    pub fn suggestions(&self, request: &ItemRequest) -> Result<Suggestions> {
        let (annotator, item) = (name(&request.annotator)?, request.item);
        let (record, solution) = self.item(item)?;
        let mut inner = self.lock();
        if !inner.state.has_seen(annotator, item) {
            let event = Event::SuggestionsShown { annotator: annotator.to_owned(), item, time: time::now() };
            inner.commit(event, (self.clock)())?;
        }
        Ok(Suggestions {
            item,
            scores: solution.scores.clone(),
            threshold: self.project.settings.threshold,
            labels: solution.annotations.iter().map(suggested).collect(),
            answer: record.problem.answer.clone(),
            reference: record.problem.readable_reference().iter().map(|step| self.shown(step)).collect(),
        })
    }

    /// The person is still at it. An item whose lease ran out is theirs again, unless another person has it now.
    pub fn heartbeat(&self, request: &ItemRequest) -> Result<Held> {
        let (annotator, item) = (name(&request.annotator)?, request.item);
        self.item(item)?;
        let now = (self.clock)();
        let mut inner = self.lock();
        let mut held = inner.state.holder(item, now) == Some(annotator);
        if held {
            inner.state.renew(annotator, item, now);
        } else if !inner.state.has_finished(annotator, item) {
            self.claim(&inner.state, annotator, item, now)?;
            inner.commit(Event::Given { annotator: annotator.to_owned(), item, time: time::now() }, now)?;
            held = true;
        }
        Ok(Held { item, held, lease_seconds: self.project.settings.lease_seconds })
    }

    /// The person leaves the item to others.
    pub fn release(&self, request: &ItemRequest) -> Result<Held> {
        let (annotator, item) = (name(&request.annotator)?, request.item);
        self.item(item)?;
        let now = (self.clock)();
        let mut inner = self.lock();
        if inner.state.holder(item, now) == Some(annotator) {
            let event = Event::Released { annotator: annotator.to_owned(), item, time: time::now() };
            inner.commit(event, now)?;
        }
        Ok(Held { item, held: false, lease_seconds: self.project.settings.lease_seconds })
    }

    /// The finished labels as records of a format.
    pub fn export(&self, format: ExportFormat, combine: Combine) -> Exported {
        let state = self.lock().state.clone();
        export(&self.project, &state, format, combine)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn item(&self, item: usize) -> Result<(&gradus_core::Record, &Solution)> {
        self.project.item(item).ok_or(Error::NoSuchItem { item, items: self.project.items() })
    }

    /// Refuses an item that is another person's, or that enough others have finished.
    fn claim(&self, state: &State, annotator: &str, item: usize, now: f64) -> Result<()> {
        self.item(item)?;
        if state.holder(item, now).is_some_and(|holder| holder != annotator) {
            let minutes = self.project.settings.lease_seconds.div_ceil(60);
            return Err(Error::LeaseLost { item, minutes });
        }
        if self.is_full(state, annotator, item) {
            return Err(Error::LabeledEnough { item });
        }
        Ok(())
    }

    fn is_full(&self, state: &State, annotator: &str, item: usize) -> bool {
        let others = state.finished(item).filter(|(name, _)| *name != annotator).count();
        others >= self.project.settings.people_per_item
    }

    fn is_open(&self, state: &State, annotator: &str, item: usize, now: f64) -> bool {
        !state.has_finished(annotator, item) && self.claim(state, annotator, item, now).is_ok()
    }

    /// The first item of the queue that is open for this person; after another item, those before it come last.
    fn first_in_queue(
        &self,
        state: &State,
        annotator: &str,
        after: Option<usize>,
        now: f64,
    ) -> Option<usize> {
        let order = self.project.settings.order;
        let key = |item: usize| {
            let mut votes = self.said[item].votes.clone();
            votes.extend(state.finished(item).map(|(name, label)| vote(label.annotation(name).first_error)));
            let (disagreement, uncertainty) = (disagreement(&votes), self.said[item].uncertainty);
            SortKey { disagreement, uncertainty, item }
        };
        let from = after.filter(|item| *item < self.project.items()).map(key);
        let open = (0..self.project.items()).filter(|item| self.is_open(state, annotator, *item, now));
        open.map(key)
            .min_by(|one, other| {
                let before = |key: &SortKey| from.is_some_and(|from| key.compare(&from, order).is_le());
                before(one).cmp(&before(other)).then_with(|| {
                    // The item that is left for later is the very last.
                    let is_left = |key: &SortKey| Some(key.item) == after;
                    is_left(one).cmp(&is_left(other)).then_with(|| one.compare(other, order))
                })
            })
            .map(|key| key.item)
    }

    fn nothing(&self, state: &State, annotator: &str, now: f64) -> String {
        let mine =
            |item: &usize| !state.has_finished(annotator, *item) && !self.is_full(state, annotator, *item);
        match (0..self.project.items()).filter(mine).count() {
            0 => "Every item is labeled, as far as you are concerned. Thank you.".to_owned(),
            left => {
                let wait = state.first_free(now).map_or(1, |seconds| (seconds / 60.0).ceil() as u64);
                let items = counted(left, "item");
                format!("The last {items} are with other people: look again in {wait} min.")
            }
        }
    }

    fn progress(&self, state: &State, annotator: &str) -> Progress {
        let items = self.project.items();
        let enough = self.project.settings.people_per_item;
        Progress {
            items,
            done: (0..items).filter(|item| state.finished(*item).count() >= enough).count(),
            mine: (0..items).filter(|item| state.has_finished(annotator, *item)).count(),
        }
    }

    fn response(&self, state: &State, annotator: &str, item: usize) -> NextResponse {
        let (record, solution) = self.project.item(item).expect("checked before");
        let saved = state.last_save(annotator, item);
        let task = Task {
            item,
            problem_id: record.problem.id.clone(),
            solution_id: solution.id.clone(),
            problem: self.shown(&record.problem.question()),
            steps: solution.steps.iter().map(|step| self.shown(step)).collect(),
            label: saved
                .map_or_else(|| SolutionLabel::empty(solution.steps.len()), |saved| saved.label.clone()),
            finished: saved.is_some_and(|saved| saved.finished),
            revision: state.revision(annotator, item),
            lease_seconds: self.project.settings.lease_seconds,
            suggestions_seen: state.has_seen(annotator, item),
        };
        NextResponse { task: Some(task), nothing: None, progress: self.progress(state, annotator) }
    }

    fn shown(&self, text: &str) -> Shown {
        Shown { text: text.to_owned(), html: self.render.as_ref().map(|render| render(text)) }
    }
}

impl Inner {
    /// Keeps an event on disk, then takes it into account.
    fn commit(&mut self, event: Event, now: f64) -> Result<()> {
        let log = self.log.as_mut().ok_or(Error::ReadOnly)?;
        let number = log.add(event.annotator(), &event)?;
        self.state.apply(number, event, now);
        Ok(())
    }
}

/// A person's name, without blanks around it.
fn name(text: &str) -> Result<&str> {
    let name = text.trim();
    let wrong = match () {
        () if name.is_empty() => "is empty: say who labels".to_owned(),
        () if name.chars().count() > NAME => format!("has more than {NAME} characters"),
        () if name.contains(char::is_control) => "has a control character".to_owned(),
        () => return Ok(name),
    };
    Err(Error::Invalid(format!("annotator {wrong}")))
}

fn suggested(annotation: &Annotation) -> SuggestedLabel {
    let explanation = |label: &Option<gradus_core::StepLabel>| {
        label
            .as_ref()
            .and_then(|label| Some(label.evidence.as_ref()?.explanation.clone()))
            .unwrap_or_default()
    };
    SuggestedLabel {
        annotator: annotation.source_name(),
        marks: annotation.labels.iter().map(|label| label.as_ref().map(|label| label.mark)).collect(),
        first_error: annotation.first_error,
        explanations: annotation.labels.iter().map(explanation).collect(),
    }
}
