"""Problems with known answers, optimiser traces on them, and the metrics of the paper."""
