/** The operator's console. */
import { render } from 'preact'

render(
  <main class="wrap">
    <h1>Console</h1>
    <p>The pages follow; the data behind them is at /operator.</p>
  </main>,
  document.body,
)
