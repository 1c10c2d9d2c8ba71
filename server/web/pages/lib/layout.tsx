/** Header and footer of every page. */
import type { ComponentChildren } from 'preact'

const LINKS = [
  ['/', 'Models'],
  ['/play', 'Playground'],
  ['/wallet', 'Purchases'],
  ['/docs', 'Reference'],
  ['/docs/guide/', 'Guides'],
] as const

/** The bar, the main part and the end of a page. `isTestMoney` says so above everything else. */
export function Layout(props: { path: string; isTestMoney: boolean; children: ComponentChildren }) {
  return (
    <>
      <a class="skip" href="#main">
        To the content
      </a>
      <header class="bar">
        <nav class="wrap" aria-label="Main">
          <a class="name" href="/">
            Farebox
          </a>
          {LINKS.map(([path, text]) => (
            <a href={path} aria-current={path === props.path ? 'page' : undefined}>
              {text}
            </a>
          ))}
        </nav>
      </header>
      {props.isTestMoney && (
        <div class="note">
          <p class="wrap">A local chain with test money and demo products. Nothing here costs anything.</p>
        </div>
      )}
      <main id="main" class="wrap">
        {props.children}
      </main>
      <footer class="end">
        <ul class="wrap row">
          <li class="soft">For programs:</li>
          <li>
            <a href="/openapi.json">openapi.json</a>
          </li>
          <li>
            <a href="/llms.txt">llms.txt</a>
          </li>
          <li>
            <a href="/api/pricing">prices</a>
          </li>
          <li>
            <a href="/.well-known/x402">x402 services</a>
          </li>
          <li>
            <a href="/api/health">health</a>
          </li>
        </ul>
      </footer>
    </>
  )
}
