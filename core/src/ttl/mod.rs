//! Lifetimes: write rates, the Poisson quantile, the average of observed lifetimes.
