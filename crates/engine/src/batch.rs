//! What goes through a decoder at once: rows of tokens, their positions, and which keys each of them sees.
//!
//! A [`Forest`] describes prompts that share beginnings. Each node is a run of tokens; it sees itself causally, the
//! first tokens of its parent up to where it branches off, and whatever those see. A solution scored step by step is a
//! tree: a trunk (system prompt, references, question, steps) and a short branch per step. One pass over the tree gives
//! what one prompt per step would give, because positions and visible keys are the same.
//!
//! ```text
//! trunk   q q q s1 s1 s2 s2          positions 0…6
//! branch 0      └ t1 ?               sees q q q, positions 3, 4
//! branch 1            └ t2 ?         sees q q q s1 s1, positions 5, 6
//! ```

use std::ops::Range;

use gradus_kernels::attention::Segment;

/// A run of tokens that follows the first `after` tokens of another run.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Node {
    tokens: Vec<u32>,
    parent: Option<(usize, usize)>,
    /// Position of the first token.
    depth: usize,
}

/// Prompts that share beginnings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Forest {
    nodes: Vec<Node>,
}

impl Forest {
    /// One prompt alone.
    pub fn sequence(tokens: Vec<u32>) -> Self {
        Self { nodes: vec![Node { tokens, parent: None, depth: 0 }] }
    }

    /// Adds a run that follows nothing, and returns its number.
    pub fn root(&mut self, tokens: Vec<u32>) -> usize {
        self.nodes.push(Node { tokens, parent: None, depth: 0 });
        self.nodes.len() - 1
    }

    /// Adds a run that follows the first `after` tokens of `parent`, and returns its number.
    pub(crate) fn branch(&mut self, parent: usize, after: usize, tokens: Vec<u32>) -> usize {
        let above = &self.nodes[parent];
        assert!(after <= above.tokens.len(), "a branch leaves its parent inside it");
        let depth = above.depth + after;
        self.nodes.push(Node { tokens, parent: Some((parent, after)), depth });
        self.nodes.len() - 1
    }

    /// Adds a whole prompt and shares every token that an earlier prompt begins with as well.
    ///
    /// Prompts that differ only near their ends should come longest first: the others then branch off one trunk.
    pub fn insert(&mut self, tokens: &[u32]) -> Path {
        let mut path = Path::default();
        let mut done = 0;
        let mut next = self.start_of(tokens);
        while let Some((node, from)) = next {
            let run = &self.nodes[node].tokens[from..];
            let same = run.iter().zip(&tokens[done..]).take_while(|(a, b)| a == b).count();
            if same > 0 {
                path.parts.push((done, node, from));
                done += same;
            }
            let after = from + same;
            next = (done < tokens.len()).then(|| self.child_of(node, after, tokens[done])).flatten();
            if done < tokens.len() && next.is_none() {
                // A run of one row takes another way through attention, with other rounding. What a prompt gives must not
                // depend on what it is read with, so the token before comes along.
                let alone = tokens.len() - done == 1 && same > 0;
                let (after, first) = if alone { (after - 1, done - 1) } else { (after, done) };
                let same =
                    |child: &Node| child.parent == Some((node, after)) && child.tokens == tokens[first..];
                let known = if alone { self.nodes.iter().position(same) } else { None };
                let child = known.unwrap_or_else(|| self.branch(node, after, tokens[first..].to_vec()));
                path.parts.push((first, child, 0));
                return path;
            }
        }
        if done < tokens.len() {
            let root = self.root(tokens.to_vec());
            path.parts.push((0, root, 0));
        }
        path
    }

    /// Adds the prompts of another forest and shares what is there; returns each of its runs' position and path.
    pub(crate) fn graft(&mut self, other: &Self) -> Vec<(usize, Path)> {
        let runs = other.nodes.iter().enumerate().map(|(number, node)| {
            let path = match node.tokens.len() {
                0 => Path::default(),
                length => self.insert(&other.prefix(number, length - 1)),
            };
            (node.depth, path)
        });
        runs.collect()
    }

    /// A root that begins with the same token.
    fn start_of(&self, tokens: &[u32]) -> Option<(usize, usize)> {
        let begins = |node: &Node| node.parent.is_none() && node.tokens.first() == tokens.first();
        self.nodes.iter().position(begins).map(|node| (node, 0))
    }

    /// A run that leaves `node` after `after` tokens with `token`.
    fn child_of(&self, node: usize, after: usize, token: u32) -> Option<(usize, usize)> {
        let leaves =
            |child: &Node| child.parent == Some((node, after)) && child.tokens.first() == Some(&token);
        self.nodes.iter().position(leaves).map(|child| (child, 0))
    }

    /// Number of runs.
    pub(crate) fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Takes back the runs after the first `nodes`: what was inserted since then.
    pub(crate) fn truncate(&mut self, nodes: usize) {
        self.nodes.truncate(nodes);
    }

    /// Tokens to process.
    pub fn tokens(&self) -> usize {
        self.nodes.iter().map(|node| node.tokens.len()).sum()
    }

    /// The tokens from the root to token `offset` of `node`.
    pub fn prefix(&self, node: usize, offset: usize) -> Vec<u32> {
        let mut runs = vec![&self.nodes[node].tokens[..=offset]];
        let mut above = self.nodes[node].parent;
        while let Some((parent, after)) = above {
            runs.push(&self.nodes[parent].tokens[..after]);
            above = self.nodes[parent].parent;
        }
        runs.iter().rev().flat_map(|run| run.iter().copied()).collect()
    }
}

/// Where a prompt's tokens are in a forest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Path {
    /// First token of the prompt, and the node and offset where it is; the tokens after it follow.
    parts: Vec<(usize, usize, usize)>,
}

impl Path {
    /// Node and offset of the prompt's token `index`.
    pub fn locate(&self, index: usize) -> (usize, usize) {
        let part = self.parts.partition_point(|(first, _, _)| *first <= index) - 1;
        let (first, node, offset) = self.parts[part];
        (node, offset + index - first)
    }
}

/// Rows for one pass through a decoder.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Batch {
    /// One token per row.
    pub tokens: Vec<u32>,
    /// Its position.
    pub positions: Vec<u32>,
    /// Which keys the rows see. Keys are numbered like rows, or like slots of a cache when `slots` is given.
    pub segments: Vec<Segment>,
    /// Where the rows' keys and values go in the cache, in order; empty without a cache.
    pub slots: Vec<Range<usize>>,
}

impl Batch {
    /// Adds a forest; returns the row at which each of its nodes starts.
    pub fn add(&mut self, forest: &Forest) -> Vec<usize> {
        let mut starts = Vec::with_capacity(forest.nodes.len());
        for node in &forest.nodes {
            let start = self.tokens.len();
            starts.push(start);
            self.tokens.extend(&node.tokens);
            self.positions
                .extend((node.depth..node.depth + node.tokens.len()).map(|position| position as u32));
            let mut keys = vec![start..start + node.tokens.len()];
            let mut above = node.parent;
            while let Some((parent, after)) = above {
                keys.push(starts[parent]..starts[parent] + after);
                above = forest.nodes[parent].parent;
            }
            keys.reverse();
            keys.retain(|range| !range.is_empty());
            if !node.tokens.is_empty() {
                self.segments.push(Segment { rows: start..start + node.tokens.len(), keys });
            }
        }
        starts
    }

    /// Rows.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_see_their_own_prefix_only() {
        let mut forest = Forest::default();
        let question = forest.root(vec![1, 2, 3]);
        let trunk = forest.branch(question, 3, vec![4, 5, 6]);
        let branch = forest.branch(trunk, 2, vec![7, 8]);
        let mut batch = Batch::default();
        batch.add(&Forest::sequence(vec![9]));
        let starts = batch.add(&forest);
        assert_eq!(starts, [1, 4, 7]);
        assert_eq!(batch.positions, [0, 0, 1, 2, 3, 4, 5, 5, 6]);
        assert_eq!(batch.segments[3].keys, [1..4, 4..6, 7..9]);
        assert_eq!(forest.prefix(branch, 1), [1, 2, 3, 4, 5, 7, 8]);
        assert_eq!(forest.tokens(), 8);
    }

    #[test]
    fn inserted_prompts_share_their_beginnings() {
        let mut forest = Forest::default();
        let long = forest.insert(&[1, 2, 3, 4, 5, 9]);
        // One token is left: the one before comes along.
        let short = forest.insert(&[1, 2, 3, 9]);
        let again = forest.insert(&[1, 2, 3, 9]);
        let other = forest.insert(&[1, 2, 3, 9, 8]);
        assert_eq!(forest.tokens(), 6 + 2 + 2);
        assert_eq!((long.locate(5), short.locate(1), short.locate(2)), ((0, 5), (0, 1), (1, 0)));
        assert_eq!((&again, other.locate(2), other.locate(4)), (&short, (0, 2), (2, 1)));
        for (path, tokens) in
            [(&long, vec![1, 2, 3, 4, 5, 9]), (&short, vec![1, 2, 3, 9]), (&other, vec![1, 2, 3, 9, 8])]
        {
            let (node, offset) = path.locate(tokens.len() - 1);
            assert_eq!(forest.prefix(node, offset), tokens);
        }
        assert_eq!(forest.insert(&[1, 2]).locate(1), (0, 1));
        assert_eq!(forest.insert(&[7]).locate(0), (3, 0));
    }

    proptest::proptest! {
        #[test]
        fn any_prompts_can_be_read_back(prompts in proptest::collection::vec(proptest::collection::vec(0u32..3, 1..8), 1..12)) {
            let mut forest = Forest::default();
            let paths: Vec<Path> = prompts.iter().map(|prompt| forest.insert(prompt)).collect();
            for (prompt, path) in prompts.iter().zip(&paths) {
                for index in 0..prompt.len() {
                    let (node, offset) = path.locate(index);
                    proptest::prop_assert_eq!(forest.prefix(node, offset), &prompt[..=index]);
                }
            }
            // One token for each distinct beginning, and one more for a run that would be of one row.
            let distinct: std::collections::BTreeSet<&[u32]> =
                prompts.iter().flat_map(|prompt| (1..=prompt.len()).map(|end| &prompt[..end])).collect();
            proptest::prop_assert!(forest.tokens() >= distinct.len());
            proptest::prop_assert!(forest.tokens() <= distinct.len() + prompts.len());
            for node in forest.nodes.iter().filter(|node| node.parent.is_some()) {
                proptest::prop_assert!(node.tokens.len() > 1);
            }
        }
    }
}
