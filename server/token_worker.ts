/** The thread that counts tokens. It stands beside main.ts: a binary looks for its second entry point there alone. */
import './wiring/token_answers.ts'
