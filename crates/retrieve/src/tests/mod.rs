//! Pools and retrieval with made-up records and an encoder that counts words; TF-IDF and PCA against scikit-learn; the
//! speed of search.

mod fake;
mod foreign;
mod growth;
mod leak;
mod pca;
mod pool;
mod tfidf;
mod two_stage;
mod writers;
