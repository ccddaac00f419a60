//! Forests that go through the model together, joined where they begin alike.

use crate::batch::{Forest, Path};

/// The forests of one pass.
#[derive(Default)]
pub(crate) struct Joined {
    forests: Vec<Forest>,
    /// What each of them begins with.
    beginnings: Vec<Option<u64>>,
}

/// Where a forest is in a pass.
pub(crate) struct Place {
    forest: usize,
    /// Each run's position and path, in a forest that was there before; none where it is as it was.
    runs: Option<Vec<(usize, Path)>>,
}

impl Place {
    /// Where token `offset` of the run `node` is: a forest of the pass, its run, and the token in that.
    pub(crate) fn locate(&self, node: usize, offset: usize) -> (usize, usize, usize) {
        let (node, offset) = match &self.runs {
            None => (node, offset),
            Some(runs) => {
                let (position, path) = &runs[node];
                path.locate(position + offset)
            }
        };
        (self.forest, node, offset)
    }
}

impl Joined {
    /// Adds a forest, joined to one with the same beginning, or hands it back where it makes the pass longer than `budget`.
    pub(crate) fn add(
        &mut self,
        forest: Forest,
        beginning: Option<u64>,
        budget: usize,
    ) -> Result<Place, Forest> {
        let known = self.beginnings.iter().position(|known| beginning.is_some() && *known == beginning);
        if let Some(number) = known {
            let before = self.forests[number].nodes();
            let runs = self.forests[number].graft(&forest);
            if self.tokens() <= budget {
                return Ok(Place { forest: number, runs: Some(runs) });
            }
            self.forests[number].truncate(before);
            return Err(forest);
        }
        if !self.forests.is_empty() && self.tokens() + forest.tokens() > budget {
            return Err(forest);
        }
        self.forests.push(forest);
        self.beginnings.push(beginning);
        Ok(Place { forest: self.forests.len() - 1, runs: None })
    }

    /// Tokens of the pass.
    pub(crate) fn tokens(&self) -> usize {
        self.forests.iter().map(Forest::tokens).sum()
    }

    /// The forests that the places refer to.
    pub(crate) fn forests(&self) -> &[Forest] {
        &self.forests
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forest(prompts: &[&[u32]]) -> Forest {
        let mut forest = Forest::default();
        for prompt in prompts {
            forest.insert(prompt);
        }
        forest
    }

    #[test]
    fn what_begins_alike_is_joined_and_found_again() {
        let mut joined = Joined::default();
        let first = joined.add(forest(&[&[1, 2, 3, 4, 5]]), Some(1), 100).ok().unwrap();
        let other = joined.add(forest(&[&[1, 2, 3, 4, 5]]), Some(2), 100).ok().unwrap();
        let second =
            joined.add(forest(&[&[1, 2, 3, 6, 7, 8], &[1, 2, 3, 6, 9, 9]]), Some(1), 100).ok().unwrap();
        assert_eq!(joined.tokens(), 5 + 5 + 3 + 2);
        assert_eq!((first.locate(0, 4), other.locate(0, 4)), ((0, 0, 4), (1, 0, 4)));
        assert_eq!((second.locate(0, 2), second.locate(0, 5)), ((0, 0, 2), (0, 1, 2)));
        let (at, node, offset) = second.locate(1, 1);
        assert_eq!(joined.forests()[at].prefix(node, offset), [1, 2, 3, 6, 9, 9]);
    }

    #[test]
    fn a_forest_that_does_not_fit_leaves_the_pass_as_it_was() {
        let mut joined = Joined::default();
        assert!(joined.add(forest(&[&[1, 2, 3, 4]]), Some(1), 3).is_ok(), "the first one always fits");
        assert!(joined.add(forest(&[&[1, 2, 3, 4]]), Some(1), 4).is_ok(), "nothing is added");
        assert!(joined.add(forest(&[&[1, 2, 5, 6]]), Some(1), 5).is_err());
        assert!(joined.add(forest(&[&[7, 8]]), None, 5).is_err());
        assert_eq!(joined.tokens(), 4);
        assert!(joined.add(forest(&[&[7]]), None, 5).is_ok());
        assert!(joined.add(forest(&[&[7]]), None, 6).is_ok(), "without a beginning nothing is shared");
        assert_eq!(joined.tokens(), 6);
    }
}
